//! The folders in which presets are searched by name.

use std::{
    fmt, fs, io,
    path::{Component, Path, PathBuf},
};

use super::{MANIFEST, PresetError};
use crate::Home;

/// The folders that hold presets: first the user's own, then those that came with the program.
#[derive(Clone, Debug)]
pub struct SearchPath(Vec<PathBuf>);

impl SearchPath {
    /// `presets` in Tandem's home; `../share/tandem/presets` and `presets` beside the program; and
    /// for a program that was built in a checkout, the `presets` of the checkout.
    pub fn new(home: &Home, program: Option<&Path>) -> Self {
        let mut places = vec![home.presets()];
        if let Some(folder) = program.and_then(Path::parent) {
            places.extend(folder.parent().map(|prefix| prefix.join("share/tandem/presets")));
            places.push(folder.join("presets"));
            let target = folder.ancestors().find(|a| a.file_name().is_some_and(|n| n == "target"));
            places.extend(target.and_then(Path::parent).map(|checkout| checkout.join("presets")));
        }
        Self(places)
    }

    /// Finds the folder of a preset from a path or a name. A name is searched in these folders
    /// first and in the working folder last, so that a folder that happens to be there never
    /// replaces a preset.
    pub fn find(&self, given: &str) -> Result<PathBuf, PresetError> {
        let path = Path::new(given);
        if !is_name(given) {
            return if path.is_dir() {
                Ok(path.into())
            } else {
                Err(PresetError::NoFolder { folder: path.into() })
            };
        }
        if let Some(folder) = self.named(given) {
            return Ok(folder);
        }
        if !given.is_empty() && path.is_dir() {
            return Ok(path.into());
        }
        let mut known: Vec<_> = self.list()?.into_iter().map(|found| found.name).collect();
        known.sort();
        known.dedup();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        Err(PresetError::Unknown { name: given.into(), known, places: self.to_string() })
    }

    /// The same for a pair: in each of these folders, one that is named `NAME-PAIR` comes before one
    /// that is named `NAME`.
    pub fn find_for(&self, given: &str, pair: &str) -> Result<PathBuf, PresetError> {
        let names = [format!("{given}-{pair}"), given.to_owned()];
        let folders = self.0.iter().flat_map(|place| names.each_ref().map(|name| place.join(name)));
        let mut named = folders.filter(|folder| folder.join(MANIFEST).exists());
        match named.next() {
            Some(folder) if is_name(given) => Ok(folder),
            _ => self.find(given),
        }
    }

    /// The first folder of this name that has a manifest.
    pub fn named(&self, name: &str) -> Option<PathBuf> {
        self.0.iter().map(|place| place.join(name)).find(|folder| folder.join(MANIFEST).exists())
    }

    /// All presets, in the order in which the folders are searched.
    pub fn list(&self) -> Result<Vec<PresetEntry>, PresetError> {
        let mut found: Vec<PresetEntry> = vec![];
        for place in &self.0 {
            let unreadable = |source| PresetError::Unreadable { path: place.clone(), source };
            let entries = match fs::read_dir(place) {
                Ok(entries) => entries,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(unreadable(e)),
            };
            let mut here = vec![];
            for entry in entries {
                let folder = entry.map_err(unreadable)?.path();
                // A name that is not UTF-8 cannot be given on the command line.
                let name = folder.file_name().and_then(|name| name.to_str());
                if let Some(name) = name.filter(|_| folder.join(MANIFEST).exists()) {
                    let shadowed = found.iter().any(|before| before.name == name);
                    here.push(PresetEntry {
                        name: name.to_owned(),
                        shadowed,
                        folder: folder.clone(),
                    });
                }
            }
            here.sort_by(|a, b| a.name.cmp(&b.name));
            found.extend(here);
        }
        Ok(found)
    }
}

/// A preset that was found. Its manifest has not been read yet.
#[derive(Clone, Debug)]
pub struct PresetEntry {
    /// The name of its folder.
    pub name: String,
    pub folder: PathBuf,
    /// Whether a preset of the same name is found before it.
    pub shadowed: bool,
}

impl fmt::Display for SearchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<_> = self.0.iter().map(|place| place.display().to_string()).collect();
        f.write_str(&places.join(", "))
    }
}

/// A name is a single path component, and not `..`.
fn is_name(given: &str) -> bool {
    let components: Vec<_> = Path::new(given).components().collect();
    !given.contains('/') && matches!(components[..], [] | [Component::Normal(_)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    /// Makes presets that are nothing but a manifest, which the search does not read.
    fn make(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(MANIFEST), "").unwrap();
    }

    fn home(root: &Path) -> Home {
        let tandem_home = Some(root.join("home"));
        Home::find(Environment { tandem_home, ..Environment::default() }).unwrap()
    }

    #[test]
    fn the_users_own_comes_before_what_came_with_the_program() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let home = home(root.path());
        let installed = SearchPath::new(&home, Some(&at("usr/bin/tandem")));
        let built = SearchPath::new(&home, Some(&at("src/target/release/tandem")));
        let tested = SearchPath::new(&home, Some(&at("src/target/release/deps/all-01")));
        make(&at("usr/share/tandem/presets/a"));
        make(&at("usr/bin/presets/a"));
        make(&at("src/presets/a"));
        assert_eq!(installed.find("a").unwrap(), at("usr/share/tandem/presets/a"));
        assert_eq!(built.find("a").unwrap(), at("src/presets/a"));
        assert_eq!(tested.find("a").unwrap(), at("src/presets/a"));
        fs::remove_dir_all(at("usr/share")).unwrap();
        assert_eq!(installed.find("a").unwrap(), at("usr/bin/presets/a"));
        // A folder without a manifest is not a preset, whatever else is in it.
        fs::create_dir_all(at("home/presets/a")).unwrap();
        assert_eq!(built.find("a").unwrap(), at("src/presets/a"));
        make(&at("home/presets/a"));
        assert_eq!(built.find("a").unwrap(), at("home/presets/a"));
        let list: Vec<_> = built.list().unwrap();
        assert_eq!(list.iter().map(|f| f.shadowed).collect::<Vec<_>>(), [false, true]);
        // A program outside a `target` folder does not search two levels up: anybody might write there.
        let elsewhere = SearchPath::new(&home, Some(&at("src/other/release/tandem")));
        assert!(!elsewhere.to_string().contains(at("src/presets").to_str().unwrap()));
    }

    #[test]
    fn a_preset_for_the_pair_comes_before_one_for_any_but_not_before_the_users_own() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let home = home(root.path());
        let places = SearchPath::new(&home, Some(&at("src/target/release/tandem")));
        make(&at("src/presets/a"));
        assert_eq!(places.find_for("a", "big").unwrap(), at("src/presets/a"));
        make(&at("src/presets/a-big"));
        assert_eq!(places.find_for("a", "big").unwrap(), at("src/presets/a-big"));
        assert_eq!(places.find_for("a", "small").unwrap(), at("src/presets/a"));
        assert_eq!(places.find_for("a-big", "small").unwrap(), at("src/presets/a-big"));
        make(&home.presets().join("a"));
        assert_eq!(places.find_for("a", "big").unwrap(), home.presets().join("a"));
        // A path is what it says, and what is nowhere is named as it was given.
        let path = at("src/presets/a");
        assert_eq!(places.find_for(path.to_str().unwrap(), "big").unwrap(), path);
        let error = places.find_for("poetry", "big").unwrap_err().to_string();
        assert!(error.contains("poetry") && !error.contains("poetry-big"), "{error}");
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let root = tempfile::tempdir().unwrap();
        let home = home(root.path());
        let places = SearchPath::new(&home, None);
        let error = |given: &str| places.find(given).unwrap_err();
        let nothing = error("poetry").to_string();
        assert!(nothing.contains("there are none"), "{nothing}");
        make(&home.presets().join("b"));
        make(&home.presets().join("a"));
        let said = error("poetry").to_string();
        let looked = home.presets().display().to_string();
        assert!(said.contains("there are a, b") && said.contains(&looked), "{said}");
        assert!(matches!(error(""), PresetError::Unknown { .. }));
        assert!(matches!(error("./a"), PresetError::NoFolder { .. }));
        assert!(matches!(error("/none"), PresetError::NoFolder { .. }));
        // `..` is the folder above the working folder, and not `presets/..`.
        assert_eq!(places.find("..").unwrap(), Path::new(".."));
    }
}
