//! Parsers for the library's enums, with a help text for each value.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use decode::OnCloudError;
use tandem::Mode;

pub fn mode() -> impl TypedValueParser<Value = Mode> {
    let values = [
        PossibleValue::new("small").help("The small model alone"),
        PossibleValue::new("joint")
            .help("The small model, and the large one where the router asks it"),
        PossibleValue::new("large").help("The large model alone"),
        PossibleValue::new("verify")
            .help("The small model drafts and the large one judges: its text, at fewer passes"),
    ];
    PossibleValuesParser::new(values).try_map(|text| text.parse::<Mode>())
}

pub fn on_cloud_error() -> impl TypedValueParser<Value = OnCloudError> {
    let values = [
        PossibleValue::new("keep").help(
            "The edge's own token is taken and marked as a fallback; the cloud is tried again later",
        ),
        PossibleValue::new("wait").help("The text waits until the cloud is back"),
        PossibleValue::new("fail").help("The text ends with an error"),
    ];
    PossibleValuesParser::new(values).try_map(|text| text.parse::<OnCloudError>())
}
