//! A bucket of tokens for each who asks: so many requests at once, and so many a second after that.
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

pub struct Rates {
    burst: f64,
    per_second: f64,
    buckets: Mutex<BTreeMap<[u8; 16], Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    pub fn new(burst: u32, per_second: u32) -> Rates {
        Rates {
            burst: f64::from(burst.max(1)),
            per_second: f64::from(per_second.max(1)),
            buckets: Mutex::default(),
        }
    }

    /// Or how long to wait.
    pub fn take(&self, who: [u8; 16], now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Only who has a token gets here, so there are no more buckets than tokens.
        let bucket = buckets.entry(who).or_insert(Bucket {
            left: self.burst,
            at: now,
        });
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * self.per_second).min(self.burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / self.per_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_a_second_and_each_their_own() {
        let rates = Rates::new(3, 2);
        let begin = Instant::now();
        assert!((0..3).all(|_| rates.take([1; 16], begin).is_ok()));
        assert_eq!(rates.take([1; 16], begin), Err(Duration::from_millis(500)));
        assert_eq!(rates.take([2; 16], begin), Ok(()));
        let later = begin + Duration::from_millis(500);
        assert_eq!(rates.take([1; 16], later), Ok(()));
        assert!(rates.take([1; 16], later).is_err());
        let much_later = begin + Duration::from_secs(3_600);
        assert!((0..3).all(|_| rates.take([1; 16], much_later).is_ok()));
        assert!(rates.take([1; 16], much_later).is_err());
    }
}
