/* The demo's text, which the Makefile puts together from the project's own sources and documentation. */
    .section .rodata
    .globl ll_corpus_begin, ll_corpus_end
    .hidden ll_corpus_begin, ll_corpus_end
ll_corpus_begin:
    .incbin "corpus.txt"
ll_corpus_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
