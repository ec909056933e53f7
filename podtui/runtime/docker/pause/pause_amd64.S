/*
 * The process that holds a pod's namespaces, for Linux on amd64: no libc, no linker.
 *
 * It blocks SIGINT, SIGTERM and SIGCHLD, then waits for them one at a time (a blocked signal is
 * queued even for PID 1). SIGCHLD: reap all zombies. SIGINT and SIGTERM: exit with status 0.
 *
 * With arguments it is a different program, run in addition to the first one:
 *     pause OLD NEW [GONE ...]
 * It renames OLD to NEW, which atomically replaces NEW. If that succeeds, it removes each GONE: a
 * file, a link or an empty directory; a missing one is no error. It exits with 0, or with 1 if any
 * step failed.
 *
 * The ELF header is written by hand, so that the binary does not depend on the tools' version.
 */
        .set BASE, 0x400000
        .set SIGNALS, (1 << 1) | (1 << 14) | (1 << 16) /* bit N-1 of signals 2, 15, 17 */
        .set SIGCHLD, 17
        .set ENOENT, 2

        .text
        .globl _start
header:
        .byte 0x7f, 'E', 'L', 'F', 2, 1, 1, 0
        .quad 0
        .short 2, 62                    /* ET_EXEC, EM_X86_64 */
        .long 1
        .quad BASE + (_start - header)
        .quad program - header
        .quad 0                         /* no sections */
        .long 0
        .short 64, 56, 1, 0, 0, 0
program:
        .long 1, 5                      /* PT_LOAD, readable and executable */
        .quad 0, BASE, BASE
        .quad end - header, end - header
        .quad 0x1000

_start:
        cmpl    $3, (%rsp)              /* argc */
        jae     rename
        xorl    %edi, %edi              /* SIG_BLOCK */
        leaq    signals(%rip), %rsi
        xorl    %edx, %edx
        movl    $8, %r10d
        movl    $14, %eax               /* rt_sigprocmask */
        syscall
wait:
        leaq    signals(%rip), %rdi
        xorl    %esi, %esi
        xorl    %edx, %edx
        movl    $8, %r10d
        movl    $128, %eax              /* rt_sigtimedwait */
        syscall
        testl   %eax, %eax
        js      wait                    /* interrupted: a debugger, a stop */
        cmpl    $SIGCHLD, %eax
        jne     leave
reap:
        movq    $-1, %rdi
        xorl    %esi, %esi
        movl    $1, %edx                /* WNOHANG */
        xorl    %r10d, %r10d
        movl    $61, %eax               /* wait4 */
        syscall
        testl   %eax, %eax
        jg      reap
        jmp     wait
rename:
        movq    16(%rsp), %rdi          /* argv[1] */
        movq    24(%rsp), %rsi
        leaq    32(%rsp), %rbx
        movl    $82, %eax               /* rename */
        syscall
        movl    $1, %edi
        testl   %eax, %eax
        jnz     exit
        xorl    %ebp, %ebp              /* the status */
remove:
        movq    (%rbx), %rdi
        addq    $8, %rbx
        testq   %rdi, %rdi
        jz      removed
        movl    $87, %eax               /* unlink */
        syscall
        testl   %eax, %eax
        jz      remove
        cmpl    $-ENOENT, %eax
        je      remove
        movl    $84, %eax               /* rmdir */
        syscall
        testl   %eax, %eax
        jz      remove
        movl    $1, %ebp
        jmp     remove
removed:
        movl    %ebp, %edi
        jmp     exit
leave:
        xorl    %edi, %edi
exit:
        movl    $231, %eax              /* exit_group */
        syscall
        .balign 8
signals:
        .quad   SIGNALS
end:
