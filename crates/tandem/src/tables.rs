//! From budgets to thresholds, for routers that need no training.
//!
//! What share of tokens a threshold asks for depends on how sure of itself an edge is, so it is
//! measured for each. The tables are in the preset of the pair, under the fingerprint of the edge.

use std::collections::HashMap;

use ::router::RouterKind;
use engine::LoadOptions;
use models::Preset;

use crate::{Error, Store};

/// A table of shares and thresholds.
pub(crate) type Table = Vec<(f32, f32)>;

/// The routers that have one. The scores of `random` are shares already.
pub const CALIBRATED: [RouterKind; 3] = [RouterKind::Top1, RouterKind::Margin, RouterKind::Entropy];

/// Tables of the default pair's edge. For another edge they are a better beginning than nothing, and
/// the share that really comes from the cloud corrects them.
const TYPICAL: [(RouterKind, &[(f32, f32)]); 3] = [
    (
        RouterKind::Top1,
        &[(0.02, 0.15), (0.05, 0.22), (0.1, 0.29), (0.2, 0.45), (0.4, 0.7), (0.7, 0.97)],
    ),
    (
        RouterKind::Margin,
        &[(0.02, 0.015), (0.05, 0.04), (0.1, 0.08), (0.2, 0.23), (0.4, 0.61), (0.7, 0.98)],
    ),
    (
        RouterKind::Entropy,
        &[(0.02, 0.014), (0.05, 0.028), (0.1, 0.06), (0.2, 0.14), (0.4, 0.39), (0.7, 0.9)],
    ),
];

/// The tables for one edge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables(HashMap<String, Table>);

impl Tables {
    /// Those of the pair's preset that were made for this edge. A preset that cannot be read has none
    /// here: whoever needs its router is told.
    pub fn find(store: &Store, edge: &LoadOptions) -> Result<Self, Error> {
        let named = store.pair.router.as_deref().and_then(|name| store.presets().named(name));
        let Some(preset) = named.and_then(|folder| Preset::open(&folder).ok()) else {
            return Ok(Self::default());
        };
        let manifest = preset.manifest();
        // A fingerprint takes seconds of a large model, so other models than the pair's are not
        // looked at: there is no table for them.
        let entry = store.catalog.find(&manifest.edge.model);
        let path = entry.and_then(|entry| store.home.require(entry).ok());
        if manifest.tables.is_empty() || path.as_deref() != Some(edge.path.as_path()) {
            return Ok(Self::default());
        }
        let fingerprint = edge.fingerprint()?;
        let ours = manifest.tables.iter().filter(|table| table.model == fingerprint);
        Ok(Self(ours.map(|table| (table.router.clone(), table.points.clone())).collect()))
    }

    /// The table of a router: this edge's, or else a typical one; empty where none is needed.
    pub fn of(&self, kind: RouterKind) -> Table {
        let typical = || {
            let found = TYPICAL.iter().find(|(typical, _)| *typical == kind);
            found.map(|(_, table)| table.to_vec()).unwrap_or_default()
        };
        self.0.get(&kind.to_string()).cloned().unwrap_or_else(typical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_comes_before_what_is_typical() {
        let measured = vec![(0.1, 0.3)];
        let tables = Tables(HashMap::from([("top1".to_owned(), measured.clone())]));
        assert_eq!(tables.of(RouterKind::Top1), measured);
        assert!(tables.of(RouterKind::Margin).len() > 2);
        assert!(tables.of(RouterKind::Random(None)).is_empty());
        for kind in CALIBRATED {
            let table = Tables::default().of(kind);
            assert!(table.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{kind}: {table:?}");
        }
    }
}
