/* The demo's text, as a constant of the library. */
    .section .rodata
    .globl ll_demo_begin, ll_demo_end
    .hidden ll_demo_begin, ll_demo_end
ll_demo_begin:
    .incbin "src/data/text/demo.txt"
ll_demo_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
