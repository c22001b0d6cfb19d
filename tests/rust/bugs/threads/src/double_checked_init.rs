//! Settings that are loaded by whoever needs them first.
//!
//! The flag is looked at before and after the lock is taken, as the pattern asks; but it goes up *before* the settings
//! are in place, because `swap` is so handy. Whoever looks between sees "loaded" and finds nothing. At fault is `get`:
//! the flag has to go up last (or a `OnceLock` has to do all of it).

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::RwLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

#[derive(Debug, PartialEq)]
pub struct Settings {
    pub retries: u32,
}

impl Settings {
    fn load() -> Self {
        let text = "retries = 3";
        let retries = text.split_once(" = ").and_then(|(_, value)| value.parse().ok());
        Settings {
            retries: retries.unwrap_or_default(),
        }
    }
}

#[derive(Default)]
pub struct LazySettings {
    is_loaded: AtomicBool,
    loading: Mutex<()>,
    settings: RwLock<Option<Arc<Settings>>>,
}

impl LazySettings {
    pub fn get(&self) -> Arc<Settings> {
        // Acquire: pairs with the AcqRel below.
        if !self.is_loaded.load(Ordering::Acquire) {
            let _loading = self.loading.lock().unwrap();
            if !self.is_loaded.swap(true, Ordering::AcqRel) {
                *self.settings.write().unwrap() = Some(Arc::new(Settings::load()));
            }
        }
        self.settings
            .read()
            .unwrap()
            .clone()
            .expect("the settings are loaded by now")
    }
}

#[cfg(test)]
mod tests {
    use super::LazySettings;
    use super::Settings;
    use starting_line::StartingLine;
    use std::thread;

    const TENANTS: usize = 20;

    #[test]
    fn double_checked_init() {
        let tenants: Vec<LazySettings> = (0..TENANTS).map(|_| LazySettings::default()).collect();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    line.wait();
                    for tenant in &tenants {
                        assert_eq!(*tenant.get(), Settings { retries: 3 });
                    }
                });
            }
        });
    }
}
