/* The page at `/` as a constant of the program. The build makes it from the files in page/. */
    .section .rodata
    .globl ll_page, ll_page_end
    .hidden ll_page, ll_page_end
ll_page:
    .incbin "cli/serve/page.html"
ll_page_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
