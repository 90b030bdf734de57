/* The page at `/`, which the build puts together of the files in page/, as a constant of the program. */
    .section .rodata
    .globl ll_page, ll_page_end
    .hidden ll_page, ll_page_end
ll_page:
    .incbin "cli/serve/page.html"
ll_page_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
