//! From JSON to the types of [`wire`](super::wire), with every mistake named by its path.

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
    let in_both = |extra: &Extra<'_>| others.iter().any(|other| other.path == extra.path);
    extras.retain(|extra| is_inside(extra) || in_both(extra));
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
