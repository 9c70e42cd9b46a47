//! From JSON to the types of [`wire`](super::wire), with every mistake named by its path.

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;

use crate::http::{ApiError, body};

/// A field that no type has.
#[derive(Debug)]
pub struct Extra<'a> {
    /// Its full path, such as `messages[2].name`.
    pub path: String,
    /// The same for every element of a list: `messages[].name`.
    pub place: String,
    pub value: &'a Value,
}

/// Reads what is the route's own and what routes share from the same object. serde's `flatten` would
/// do that at once, but forgets where a mistake was. What neither half has is extra.
pub fn halves<T: DeserializeOwned, S: DeserializeOwned>(
    object: &Value,
) -> Result<(T, S, Vec<Extra<'_>>), ApiError> {
    let (own, mut extras) = typed::<T>(object)?;
    let (shared, others) = typed::<S>(object)?;
    let in_others: HashSet<&str> = others.iter().map(|extra| extra.path.as_str()).collect();
    extras.retain(|extra| is_inside(extra) || in_others.contains(extra.path.as_str()));
    extras.extend(others.into_iter().filter(is_inside));
    Ok((own, shared, extras))
}

fn is_inside(extra: &Extra<'_>) -> bool {
    extra.place.contains('.')
}

/// Reads a type; what it does not have is extra.
pub fn typed<T: DeserializeOwned>(object: &Value) -> Result<(T, Vec<Extra<'_>>), ApiError> {
    let mut extras = vec![];
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(object, &mut track);
    match serde_ignored::deserialize(tracked, |path| extras.push(follow(&path, object))) {
        Ok(value) => Ok((value, extras)),
        Err(error) => Err(body::wrong_value(serde_path_to_error::Error::new(track.path(), error))),
    }
}

/// What stands at the end of a path.
fn follow<'a>(path: &Path<'_>, root: &'a Value) -> Extra<'a> {
    match path {
        Path::Root => Extra { path: String::new(), place: String::new(), value: root },
        Path::Seq { parent, index } => {
            let Extra { path, place, value } = follow(parent, root);
            Extra {
                path: format!("{path}[{index}]"),
                place: format!("{place}[]"),
                value: &value[*index],
            }
        }
        Path::Map { parent, key } => {
            let Extra { path, place, value } = follow(parent, root);
            let dot = if path.is_empty() { "" } else { "." };
            Extra {
                path: format!("{path}{dot}{key}"),
                place: format!("{place}{dot}{key}"),
                value: &value[key.as_str()],
            }
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => follow(parent, root),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Own {
        mine: Option<i64>,
    }

    #[derive(Deserialize)]
    struct Shared {
        ours: Option<i64>,
    }

    #[test]
    fn what_neither_half_has_is_extra() {
        let object = json!({ "mine": 1, "ours": 2, "other": 3 });
        let (own, shared, extras) = halves::<Own, Shared>(&object).unwrap();
        assert_eq!((own.mine, shared.ours), (Some(1), Some(2)));
        let paths: Vec<_> = extras.iter().map(|extra| extra.path.as_str()).collect();
        assert_eq!(paths, ["other"]);
    }

    /// Comparing each of them with every other would take minutes.
    #[test]
    fn many_unknown_fields_take_no_longer_than_their_number() {
        let fields = (0..400_000).map(|i| (format!("field{i}"), json!(0)));
        let object = Value::Object(fields.collect());
        let started = Instant::now();
        let (_, _, extras) = halves::<Own, Shared>(&object).unwrap();
        assert_eq!(extras.len(), 400_000);
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    }
}
