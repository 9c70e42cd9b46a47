//! How requests, which are read in two halves, and types of other crates, which know nothing of
//! OpenAPI, look as JSON, for the document. A test holds these to real answers, field by field, in
//! both directions.
#![expect(dead_code, reason = "they describe JSON and are never made")]

use utoipa::ToSchema;

use super::request::wire::{Beginning, Conversation, GenerationParameters};

/// Asks for the answer to a conversation.
#[derive(ToSchema)]
pub struct ChatCompletionRequest {
    #[serde(flatten)]
    conversation: Conversation,
    #[serde(flatten)]
    parameters: GenerationParameters,
}

/// Asks for the continuation of a text.
#[derive(ToSchema)]
pub struct CompletionRequest {
    #[serde(flatten)]
    beginning: Beginning,
    #[serde(flatten)]
    parameters: GenerationParameters,
}

/// Who writes: the small model alone, both, the large one alone, or the large one judging the small one's
/// drafts.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Mode {
    Small,
    Joint,
    Large,
    Verify,
}

/// Where the cloud is: in this process, elsewhere or nowhere.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum CloudLocation {
    Embedded,
    Remote,
    None,
}

/// Whether the large model can be asked: the first ask loads it, it is being loaded, it answers, or it did
/// not when it was last asked.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum CloudState {
    NotLoaded,
    Loading,
    Ready,
    Unreachable,
}

/// What there is to say of a text besides its words. Its name is not `Summary`: the document has
/// one already, the answer's.
#[derive(ToSchema)]
pub struct TextSummary {
    mode: Mode,
    #[schema(required = true)]
    router: Option<String>,
    /// Why that router judges, where it stands in for a trained one that is not here.
    router_fallback: Option<String>,
    /// As it stands at the end, where it follows a budget.
    #[schema(required = true)]
    threshold: Option<f64>,
    #[schema(required = true)]
    budget: Option<f64>,
    /// What really came from the cloud, over every text that shares the budget.
    budget_realised: Option<f64>,
    /// The same seed gives the same text.
    seed: u64,
    /// What travelled to the cloud, if it was asked.
    #[schema(required = true)]
    exchange: Option<Exchange>,
    #[schema(required = true)]
    cloud_error: Option<String>,
    stats: Stats,
}

/// What travels between edge and cloud.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Exchange {
    Ids,
    Text,
}

/// Who wrote a token: the small model, the large one, or the small one because the large one could
/// not be had.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Source {
    Edge,
    Cloud,
    Fallback,
}

/// What a text did and where its time went.
#[derive(ToSchema)]
pub struct Stats {
    tokens: usize,
    /// Of them, from the cloud.
    cloud_tokens: usize,
    /// Of them, from the edge because the cloud could not be reached.
    fallback_tokens: usize,
    /// Whether the text ends where it does because the cloud could not be reached.
    fallback_end: bool,
    /// Tokens from the cloud, divided by all.
    routed_share: f64,
    /// Times the cloud answered.
    asks: usize,
    /// How often another cloud of several took over.
    failovers: usize,
    /// How often each of several clouds answered, in their order; empty where there is one.
    asks_by_cloud: Vec<usize>,
    /// Tokens the cloud read for that; null where it did not say.
    #[schema(required = true)]
    cloud_prefilled: Option<usize>,
    /// Tokens it found in its cache instead; null where it did not say.
    #[schema(required = true)]
    cloud_cached: Option<usize>,
    /// Tokens the cloud wrote for that, look-ahead included.
    cloud_decoded: usize,
    /// Tokens the edge read before it wrote the first.
    edge_prefilled: usize,
    /// Tokens of the prompt it found in its cache instead.
    edge_cached: usize,
    /// Times the edge stood in for a cloud that could not be reached.
    fallbacks: usize,
    /// Tokens that the edge had gone on to before it was certain that the text would come there.
    provisional_tokens: usize,
    /// Answers that were the edge's own choice, where it had gone on behind that.
    confirmed_asks: usize,
    /// Answers that were another of the edge's choices, where it had gone on behind that too.
    branch_asks: usize,
    /// Answers that were the edge's own choice, where the cloud judged several places with one request.
    judged_asks: usize,
    /// Answers that were another token, where the edge had gone on: that was in vain.
    contradicted_asks: usize,
    /// Doubtful places whose answer had come with an earlier one; not among `asks`.
    foreseen_asks: usize,
    /// Asks whose answer was not used, because the text went another way; not among `asks`.
    void_asks: usize,
    /// Tokens that the edge read in vain.
    void_steps: usize,
    /// Bytes that left this device for the cloud.
    sent_bytes: usize,
    characters: usize,
    time_to_first_token_ms: f64,
    mean_time_between_tokens_ms: f64,
    total_ms: f64,
    tokens_per_second: f64,
    characters_per_second: f64,
    #[serde(flatten)]
    times: Times,
}

/// Where time went, in milliseconds. The parts do not overlap.
#[derive(ToSchema)]
pub struct Times {
    /// The edge reading all unread tokens but the last.
    edge_prefill_ms: f64,
    /// The edge reading the last token.
    edge_decode_ms: f64,
    /// The router judging the proposal.
    router_ms: f64,
    /// The cloud loading its model: once, and only where it is loaded on demand.
    cloud_load_ms: f64,
    /// Waiting for other sessions at the cloud.
    cloud_queue_ms: f64,
    /// The cloud reading what was appended.
    cloud_prefill_ms: f64,
    /// The cloud writing its answer.
    cloud_decode_ms: f64,
    /// The rest of an ask: the way there and back.
    network_ms: f64,
    /// The part of an ask in which the edge went on; in none of the others.
    hidden_ms: f64,
}

/// One accepted token.
#[derive(ToSchema)]
pub struct Token {
    /// How many tokens were accepted before it.
    index: usize,
    /// Absent where a cloud alone writes and gives no ids.
    #[schema(nullable = false)]
    id: Option<u32>,
    /// The characters that became whole with it.
    text: String,
    source: Source,
    /// The router's trust in the edge's proposal; null where no router was asked.
    #[schema(required = true)]
    score: Option<f32>,
    /// Whether the cloud could have been asked here; absent while that is not known.
    #[schema(nullable = false)]
    eligible: Option<bool>,
    /// What the form that the text is held to had to do with the token; absent where nothing.
    #[schema(nullable = false)]
    constrained: Option<Constrained>,
    /// Whether ids or text were exchanged for it; on tokens of the cloud.
    #[schema(nullable = false)]
    exchange: Option<Exchange>,
    /// Where its time went; for a word of several tokens, all on the first.
    times: Times,
    /// On the first token of an answer of the cloud.
    cloud: Option<AskUsage>,
    /// How it stood to what the edge wrote while an answer was on its way; absent where it waited.
    #[schema(nullable = false)]
    speculation: Option<Speculation>,
    /// What the edge held likeliest here.
    #[schema(nullable = false)]
    alternatives: Option<Vec<Alternative>>,
    /// What left this device for this token.
    #[schema(nullable = false)]
    sent: Option<String>,
}

/// How a token stood to what the edge wrote while an answer was on its way: read before it was certain
/// that the text would come here; the cloud's answer, as expected; another of the edge's choices, which it
/// had gone on behind too; as expected, and judged together with other places; one that it had not gone on
/// behind; or one that had come with an earlier answer.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Speculation {
    Provisional,
    Confirmed,
    Branch,
    Judged,
    Contradicted,
    Foreseen,
}

/// Nothing else could come here; what the cloud wrote could not come and this is the edge's best; or it
/// closes JSON that would reach its limit.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Constrained {
    Forced,
    Replaced,
    Closed,
}

/// What an ask cost the cloud, by its own count; null where it does not say.
#[derive(ToSchema)]
pub struct AskUsage {
    #[schema(required = true)]
    prefilled: Option<usize>,
    #[schema(required = true)]
    cached: Option<usize>,
    /// Tokens it wrote, look-ahead included.
    decoded: usize,
    /// Which of several clouds answered, counted from 1; missing where there is one.
    answered_by: Option<usize>,
    /// How often another of them took over so far; missing where none did.
    failovers: Option<usize>,
}

/// A token the edge might have written.
#[derive(ToSchema)]
pub struct Alternative {
    /// What is not a whole character is replaced.
    text: String,
    probability: f32,
}
