/* The style of pages, as a string inside the library. */
    .section .rodata
    .globl ll_html_style
    .hidden ll_html_style
ll_html_style:
    .incbin "lab/report/style.css"
    .byte 0
    .section .note.GNU-stack, "", %progbits
