//! Conversations in files: JSON to go on with, Markdown to read.

use std::{fs, path::Path};

use anyhow::Context;
use decode::{Message, Role};
use serde::{Deserialize, Serialize};

/// A conversation as it is saved.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    pub messages: Vec<Message>,
}

impl Saved {
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let markdown = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("md"));
        let text = if markdown { self.markdown() } else { serde_json::to_string_pretty(self)? };
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a saved conversation", path.display()))
    }

    fn markdown(&self) -> String {
        let system = self.system.iter().map(|text| format!("> {}\n", text.replace('\n', "\n> ")));
        let turn = |message: &Message| match message.role {
            Role::System => format!("> {}\n", message.content.replace('\n', "\n> ")),
            Role::User => format!("**You:** {}\n", message.content),
            Role::Assistant => format!("{}\n", message.content),
        };
        system.chain(self.messages.iter().map(turn)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_saved_can_be_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let messages = vec![Message::user("Hi\nthere"), Message::assistant("Hello.")];
        let saved = Saved { system: Some("Be brief.".into()), messages };
        let path = folder.path().join("chat.json");
        saved.write(&path).unwrap();
        assert_eq!(Saved::read(&path).unwrap(), saved);
        let readable = folder.path().join("chat.md");
        saved.write(&readable).unwrap();
        let text = fs::read_to_string(&readable).unwrap();
        assert_eq!(text, "> Be brief.\n\n**You:** Hi\nthere\n\nHello.\n");
        assert!(Saved::read(&readable).unwrap_err().to_string().contains("not a saved"));
        assert!(Saved::read(&folder.path().join("none")).is_err());
    }
}
