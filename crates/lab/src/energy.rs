//! What the processor uses, where the machine counts it: RAPL, as Linux shows it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where Linux shows the counters.
const COUNTERS: &str = "/sys/class/powercap";

/// The energy counters of all processors of this machine.
#[derive(Debug)]
pub struct EnergyMeter {
    /// For each, its counter and the number at which that begins again, in microjoules.
    packages: Vec<(PathBuf, u64)>,
}

/// What the counters said at one moment.
#[derive(Clone, Debug)]
pub struct Reading(Vec<u64>);

impl EnergyMeter {
    /// `None` where nothing is counted, or it may not be read: most systems show it to root only.
    pub fn find() -> Option<Self> {
        Self::find_in(Path::new(COUNTERS))
    }

    fn find_in(folder: &Path) -> Option<Self> {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let package = |name: &str| {
            // `intel-rapl:0` is a processor, and `intel-rapl:0:1` a part of it.
            let number = name.strip_prefix("intel-rapl:")?;
            number.bytes().all(|b| b.is_ascii_digit()).then_some(())
        };
        let packages = entries.filter_map(|entry| {
            package(entry.file_name().to_str()?)?;
            let counter = entry.path().join("energy_uj");
            let end = number(&entry.path().join("max_energy_range_uj"))?;
            number(&counter).map(|_| (counter, end))
        });
        let mut packages: Vec<_> = packages.collect();
        packages.sort();
        (!packages.is_empty()).then_some(Self { packages })
    }

    /// `None` where the counters can no longer be read.
    pub fn read(&self) -> Option<Reading> {
        self.packages.iter().map(|(counter, _)| number(counter)).collect::<Option<_>>().map(Reading)
    }

    /// The joules that all processors used since then.
    pub fn since(&self, before: &Reading) -> Option<f64> {
        let Reading(now) = self.read()?;
        let used =
            self.packages.iter().zip(now.iter().zip(&before.0)).map(|((_, end), (now, then))| {
                if now >= then {
                    now - then
                } else {
                    end.saturating_sub(*then).saturating_add(*now)
                }
            });
        Some(used.sum::<u64>() as f64 / 1e6)
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_added_up_and_counters_begin_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(EnergyMeter::find_in(folder.path()).is_none());
        let write = |name: &str, microjoules: u64| {
            let folder = folder.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("energy_uj"), format!("{microjoules}\n")).unwrap();
            fs::write(folder.join("max_energy_range_uj"), "10000000\n").unwrap();
        };
        write("intel-rapl:0", 9_000_000);
        write("intel-rapl:1", 1_000_000);
        // A part of the first, and another kind of meter.
        write("intel-rapl:0:0", 5_000_000);
        write("dtpm", 5_000_000);
        let meter = EnergyMeter::find_in(folder.path()).unwrap();
        let before = meter.read().unwrap();
        write("intel-rapl:0", 500_000);
        write("intel-rapl:1", 3_000_000);
        write("intel-rapl:0:0", 9_000_000);
        assert!((meter.since(&before).unwrap() - 3.5).abs() < 1e-9);
        fs::remove_dir_all(folder.path().join("intel-rapl:1")).unwrap();
        assert!(meter.since(&before).is_none());
    }
}
