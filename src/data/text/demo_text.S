/* The demo's text, as a constant of the library. */
#ifdef __wasm__
    .section .rodata.ll_demo, "", @
    .type ll_demo_begin, @object
    .type ll_demo_end, @object
    .size ll_demo_begin, ll_demo_end - ll_demo_begin
    .size ll_demo_end, 1
#else
    .section .rodata
#endif
    .globl ll_demo_begin, ll_demo_end
    .hidden ll_demo_begin, ll_demo_end
ll_demo_begin:
    .incbin "src/data/text/demo.txt"
ll_demo_end:
    .byte 0
#ifndef __wasm__
    .section .note.GNU-stack, "", %progbits
#endif
