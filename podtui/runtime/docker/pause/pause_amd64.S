/*
 * The process that holds a pod's namespaces, for Linux on amd64: no libc, no linker.
 *
 * It blocks SIGINT, SIGTERM and SIGCHLD, then waits for them one at a time (a blocked signal is
 * queued even for PID 1). SIGCHLD: reap every zombie there is. The others: exit with status 0.
 * The ELF header is written by hand, so that the file is the same whatever the tools' version.
 */
        .set BASE, 0x400000
        .set SIGNALS, (1 << 1) | (1 << 14) | (1 << 16) /* bit N-1 of signals 2, 15, 17 */
        .set SIGCHLD, 17

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
leave:
        xorl    %edi, %edi
        movl    $231, %eax              /* exit_group */
        syscall
        .balign 8
signals:
        .quad   SIGNALS
end:
