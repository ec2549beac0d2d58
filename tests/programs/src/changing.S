// A guest without a system: it fills 2 MiB to 64 MiB with a pattern, and then changes 2 MiB to 6 MiB for ever. At 1 MiB is
// how often it has done so.
        .code16
        cli
        xor %ax, %ax
        mov %ax, %ds
        // A20, or odd MiB are the even ones.
        in $0x92, %al
        or $2, %al
        out %al, $0x92
        lgdt descriptors
        mov %cr0, %eax
        or $1, %al
        mov %eax, %cr0
        ljmp $8, $flat
        .code32
flat:
        mov $16, %ax
        mov %ax, %ds
        movl $0, 0x100000
        mov $0x200000, %edi
1:      imul $0x9e3779b1, %edi, %eax
        mov %eax, (%edi)
        add $4, %edi
        cmp $0x4000000, %edi
        jb 1b
again:  incl 0x100000
        mov $0x200000, %edi
2:      addl $0x10001, (%edi)
        add $516, %edi
        cmp $0x600000, %edi
        jb 2b
        jmp again

        .balign 8
table:  .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
descriptors:
        .word 23
        .long table
        .org 510
        .word 0xaa55
