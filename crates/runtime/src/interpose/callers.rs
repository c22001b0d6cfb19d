//! Functions that know who calls them.

/// Defines functions that jump to `target` with the return address as one more argument.
macro_rules! with_caller {
    ($($name:ident caller in $register:literal = $target:path;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {target}", target = sym $target)
        }
    )*};
}
pub(crate) use with_caller;
