//! Where presets are looked for.

use std::{
    fmt, fs, io,
    path::{Component, Path, PathBuf},
};

use super::{MANIFEST, PresetError};
use crate::Home;

/// The folders that hold presets: the user's own first, then what came with the program.
#[derive(Clone, Debug)]
pub struct SearchPath(Vec<PathBuf>);

impl SearchPath {
    /// `presets` under home; beside the program `../share/tandem/presets` and `presets`; and for a
    /// program that was built in its checkout, the `presets` there.
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

    /// The folder of a preset: given by its path, by its name in one of the places, or as a folder
    /// of that name right here. What lies about in the working folder never stands in for a preset
    /// that the places have.
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

    /// The first folder of this name that is a preset. One without a manifest is none.
    pub fn named(&self, name: &str) -> Option<PathBuf> {
        self.0.iter().map(|place| place.join(name)).find(|folder| folder.join(MANIFEST).exists())
    }

    /// Every preset in the places, in the order they are looked at.
    pub fn list(&self) -> Result<Vec<Found>, PresetError> {
        let mut found: Vec<Found> = vec![];
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
                // A name that is not text cannot be asked for.
                let name = folder.file_name().and_then(|name| name.to_str());
                if let Some(name) = name.filter(|_| folder.join(MANIFEST).exists()) {
                    let shadowed = found.iter().any(|before| before.name == name);
                    here.push(Found { name: name.to_owned(), shadowed, folder: folder.clone() });
                }
            }
            here.sort_by(|a, b| a.name.cmp(&b.name));
            found.extend(here);
        }
        Ok(found)
    }
}

/// A preset that was found; nothing of it has been read.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name it is asked for by: its folder's.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// Whether another of the same name comes before it.
    pub shadowed: bool,
}

impl fmt::Display for SearchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<_> = self.0.iter().map(|place| place.display().to_string()).collect();
        f.write_str(&places.join(", "))
    }
}

/// A name has no folders in it, and is none by itself, as `..` is.
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
        // A folder without a manifest is no preset, whatever else is in it.
        fs::create_dir_all(at("home/presets/a")).unwrap();
        assert_eq!(built.find("a").unwrap(), at("src/presets/a"));
        make(&at("home/presets/a"));
        assert_eq!(built.find("a").unwrap(), at("home/presets/a"));
        let list: Vec<_> = built.list().unwrap();
        assert_eq!(list.iter().map(|f| f.shadowed).collect::<Vec<_>>(), [false, true]);
        // A program elsewhere does not look two folders up: anybody might write there.
        let elsewhere = SearchPath::new(&home, Some(&at("src/other/release/tandem")));
        assert!(!elsewhere.to_string().contains(at("src/presets").to_str().unwrap()));
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
        // Not `presets/..`, but the folder above this one, which is none.
        assert_eq!(places.find("..").unwrap(), Path::new(".."));
    }
}
