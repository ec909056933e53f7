/*
 * The process that holds a pod's namespaces, for Linux on arm64. See pause_amd64.S, its equivalent.
 */
        .set BASE, 0x400000
        .set SIGNALS, (1 << 1) | (1 << 14) | (1 << 16)
        .set SIGCHLD, 17
        .set ENOENT, 2
        .set AT_FDCWD, -100
        .set AT_REMOVEDIR, 0x200

        .text
        .globl _start
header:
        .byte 0x7f, 'E', 'L', 'F', 2, 1, 1, 0
        .quad 0
        .short 2, 183                   /* ET_EXEC, EM_AARCH64 */
        .long 1
        .quad BASE + (_start - header)
        .quad program - header
        .quad 0
        .long 0
        .short 64, 56, 1, 0, 0, 0
program:
        .long 1, 5
        .quad 0, BASE, BASE
        .quad end - header, end - header
        .quad 0x10000                   /* pages may be of 64 KiB */

_start:
        ldr     x0, [sp]                /* argc */
        cmp     x0, #3
        b.hs    rename
        mov     x0, #0                  /* SIG_BLOCK */
        adr     x1, signals
        mov     x2, #0
        mov     x3, #8
        mov     x8, #135                /* rt_sigprocmask */
        svc     #0
wait:
        adr     x0, signals
        mov     x1, #0
        mov     x2, #0
        mov     x3, #8
        mov     x8, #137                /* rt_sigtimedwait */
        svc     #0
        tbnz    w0, #31, wait
        cmp     w0, #SIGCHLD
        b.ne    leave
reap:
        mov     x0, #-1
        mov     x1, #0
        mov     x2, #1                  /* WNOHANG */
        mov     x3, #0
        mov     x8, #260                /* wait4 */
        svc     #0
        cmp     w0, #0
        b.gt    reap
        b       wait
rename:
        mov     x0, #AT_FDCWD
        ldr     x1, [sp, #16]           /* argv[1] */
        mov     x2, #AT_FDCWD
        ldr     x3, [sp, #24]
        add     x19, sp, #32
        mov     x8, #38                 /* renameat */
        svc     #0
        cbnz    w0, failed
        mov     x20, #0                 /* the status */
remove:
        mov     x0, #AT_FDCWD
        ldr     x1, [x19], #8
        cbz     x1, removed
        mov     x2, #0
        mov     x8, #35                 /* unlinkat */
        svc     #0
        cbz     w0, remove
        cmn     w0, #ENOENT
        b.eq    remove
        mov     x0, #AT_FDCWD
        mov     x2, #AT_REMOVEDIR
        svc     #0
        cbz     w0, remove
        mov     x20, #1
        b       remove
removed:
        mov     x0, x20
        b       exit
failed:
        mov     x0, #1
        b       exit
leave:
        mov     x0, #0
exit:
        mov     x8, #94                 /* exit_group */
        svc     #0
        .balign 8
signals:
        .quad   SIGNALS
end:
