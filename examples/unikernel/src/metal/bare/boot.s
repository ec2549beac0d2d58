# From the loader to Rust. A PVH loader enters in 32-bit protected mode, without
# paging, with the address of its start info in ebx; memory that the program file
# does not fill is zero.

.section .note.pvh, "a", @note
    .balign 4
    .long 4                     # bytes of the name
    .long 8                     # bytes of the address
    .long 18                    # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_entry

.section .text.entry, "ax", @progbits
.code32
.global pvh_entry
pvh_entry:
    cli
    cld

    # Four tables of 512 pages of 1 GiB: 2 TiB, each byte at its own address.
    mov edi, offset boot_pml4
    mov eax, offset boot_pdpts
    or  eax, 3                  # present, writable
    mov ecx, 4
2:  mov [edi], eax
    add eax, 4096
    add edi, 8
    dec ecx
    jnz 2b

    # Memory is below 2 GiB and written back; what is above are registers.
    mov edi, offset boot_pdpts
    xor ecx, ecx
3:  mov eax, ecx
    shl eax, 30
    or  eax, 0x83               # present, writable, a page
    cmp ecx, 2
    jb  4f
    or  eax, 0x18               # uncached
4:  mov [edi], eax
    mov eax, ecx
    shr eax, 2
    mov [edi + 4], eax
    add edi, 8
    inc ecx
    cmp ecx, 2048
    jb  3b

    # The first of them in pages of 2 MiB, and what of it has the guard below the
    # stack in pages of 4 KiB: the guard is not there. The program is far below
    # 1 GiB.
    mov edi, offset boot_pd
    mov eax, 0x83               # present, writable, a page
    mov ecx, 512
6:  mov [edi], eax
    add eax, 0x200000
    add edi, 8
    dec ecx
    jnz 6b
    mov edi, offset boot_pt
    mov eax, offset boot_guard
    and eax, 0xffe00000
    or  eax, 3                  # present, writable
    mov ecx, 512
7:  mov [edi], eax
    add eax, 4096
    add edi, 8
    dec ecx
    jnz 7b
    mov eax, offset boot_guard
    shr eax, 21
    mov ecx, offset boot_pt
    or  ecx, 3
    mov [boot_pd + eax * 8], ecx
    mov eax, offset boot_guard
    shr eax, 12
    and eax, 511
    mov dword ptr [boot_pt + eax * 8], 0
    mov eax, offset boot_pd
    or  eax, 3
    mov [boot_pdpts], eax

    # Where the task state is: it has the stack of exceptions.
    mov eax, offset boot_tss
    mov [boot_gdt_task + 2], ax
    shr eax, 16
    mov [boot_gdt_task + 4], al
    mov [boot_gdt_task + 7], ah

    mov eax, cr4
    or  eax, 0x20               # physical address extension
    mov cr4, eax
    mov eax, offset boot_pml4
    mov cr3, eax
    mov ecx, 0xc0000080         # EFER
    rdmsr
    or  eax, 0x100              # long mode
    wrmsr
    mov eax, cr0
    and eax, 0x9fffffff         # caches on
    or  eax, 0x80000001         # paging, protection
    mov cr0, eax

    lgdt [boot_gdt_pointer]
    mov esp, offset boot_stack_top
    push 8
    mov eax, offset long_mode
    push eax
    retf

.code64
long_mode:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov esp, offset boot_stack_top
    mov eax, 24
    ltr ax
    xor ebp, ebp
    mov edi, ebx
    call unikernel_entry
5:  cli
    hlt
    jmp 5b

.section .data.boot, "aw", @progbits
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9a000000ffff    # 8: code, 64 bits
    .quad 0x00cf92000000ffff    # 16: data
boot_gdt_task:                  # 24: task state, of 104 bytes
    .quad 0x0000890000000067
    .quad 0
boot_gdt_pointer:
    .word boot_gdt_pointer - boot_gdt - 1
    .long boot_gdt

    .balign 8
boot_tss:
    .skip 36
    .quad boot_fault_stack_top  # the first of its stacks for interrupts (IST 1)
    .skip 58
    .word 104                   # no map of ports

.section .bss.boot, "aw", @nobits
    .balign 4096
boot_pml4:
    .skip 4096
boot_pdpts:
    .skip 4 * 4096
boot_pd:
    .skip 4096
boot_pt:
    .skip 4096
boot_fault_stack:
    .skip 16384
boot_fault_stack_top:
boot_guard:                     # not mapped: below the stack is nothing
    .skip 4096
.global boot_stack
boot_stack:
    .skip {stack}
.global boot_stack_top
boot_stack_top:
