//! Methods leap and coop: which shared program element an access or an allocation is of, as the site table says.
use crate::local::Local;
use crate::policy;
use crate::policy::Recorder;
use crate::sites;
use access_protocol::Recorder as OfAccesses;
use core::sync::atomic::Ordering::Relaxed;

impl Local {
    /// Code is about to access what its site says.
    ///
    /// # Safety
    /// `site` is a record of a site table.
    #[inline]
    pub unsafe fn at_element(&self, site: *const u8) {
        if matches!(
            policy::recorder(),
            Recorder::Memory(OfAccesses::Leap | OfAccesses::Coop)
        ) {
            // SAFETY: the caller promises that it is a record of a site table.
            self.access.element.set(unsafe { sites::element(site) });
        }
    }

    /// The access under way has faulted, and the program has a handler for that: others, and the handler, may have the
    /// elements meanwhile. If it returns, the access is made after all.
    pub fn give_up_elements(&self) {
        self.access.give_up_elements();
    }

    /// Memory was allocated where the program is.
    pub fn give_element(&self, block: u64, bytes: u64) {
        if policy::recorder() != Recorder::Memory(OfAccesses::Leap) {
            return;
        }
        if let Some(id) = sites::allocation_element(self.slot.site.load(Relaxed)) {
            self.access.give_element(block, bytes, id);
        }
    }
}
