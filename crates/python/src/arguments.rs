//! What Python gives, as the library takes it.

use std::path::PathBuf;

use cloud::{Address, Endpoint, Key, Settings};
use decode::{Limits, Message, OnCloudError, Role, Threshold};
use pyo3::{exceptions::PyUserWarning, prelude::*};
use tandem::{
    CloudConfig, LocalCloud, Mode, NamedRouter, Request, ResolvedRequest, RoutingOverrides, Share,
    Tandem,
};

use crate::{
    errors::{exception, usage},
    router::PythonRouter,
};

/// A model, by name or as a file.
pub struct ModelName(pub String);

impl<'py> FromPyObject<'_, 'py> for ModelName {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let path: PathBuf = given.extract()?;
        path.into_os_string().into_string().map(Self).map_err(|_| usage("the path is not UTF-8"))
    }
}

/// Where the large model is.
pub enum CloudArgument {
    /// In this process: the catalog's default.
    Default,
    /// No cloud is asked, and no socket is opened.
    Offline,
    /// In this process or, if it is a URL, there.
    Given(ModelName),
}

impl<'py> FromPyObject<'_, 'py> for CloudArgument {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(if given.is_none() { Self::Offline } else { Self::Given(given.extract()?) })
    }
}

impl CloudArgument {
    pub fn config(
        self,
        py: Python<'_>,
        key: Option<&str>,
        model: Option<String>,
    ) -> PyResult<CloudConfig> {
        let remote = |address: &ModelName| is_url(&address.0);
        if (key.is_some() || model.is_some()) && !matches!(&self, Self::Given(at) if remote(at)) {
            return Err(usage("cloud_key and cloud_model are for a cloud with an address"));
        }
        let name = match self {
            Self::Default => return Ok(CloudConfig::default()),
            Self::Offline => return Ok(CloudConfig::None),
            Self::Given(ModelName(name)) => name,
        };
        if !is_url(&name) {
            return Ok(CloudConfig::Local(LocalCloud { model: Some(name), adapters: vec![] }));
        }
        let address: Address = name.parse().map_err(|e| usage(format!("cloud: {e}")))?;
        let key = key.map(str::parse::<Key>).transpose();
        let key = key.map_err(|e| usage(format!("cloud_key: {e}")))?;
        if key.is_some() && !address.is_encrypted() && !address.is_loopback() {
            warn(py, &format!("the key is sent to {address} without encryption"))?;
        }
        let settings = Settings::new(Endpoint { address, key, authority: None });
        Ok(CloudConfig::Remote(vec![Settings { model, ..settings }]))
    }
}

fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Warns as Python does: shown once for each line that causes it, and turned off or into an error by
/// the caller's filters.
pub fn warn(py: Python<'_>, words: &str) -> PyResult<()> {
    let words = std::ffi::CString::new(words).map_err(usage)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &words, 2)
}

/// A mode, as users write it.
pub fn mode(text: Option<&str>) -> PyResult<Option<Mode>> {
    text.map(str::parse).transpose().map_err(usage)
}

/// Refuses what is not a threshold from 0 to 1 in the words of the command line.
pub fn threshold(value: Option<f32>) -> PyResult<Option<Threshold>> {
    value.map(Threshold::new).transpose().map_err(usage)
}

/// What a failure of the cloud means.
pub fn on_cloud_error(text: Option<&str>) -> PyResult<Option<OnCloudError>> {
    text.map(str::parse).transpose().map_err(|e| usage(format!("on_cloud_error: {e}")))
}

/// A question, or a conversation: dicts with `role` and `content`.
#[derive(FromPyObject)]
pub enum PromptArgument {
    #[pyo3(transparent)]
    Question(String),
    #[pyo3(transparent)]
    Conversation(Vec<MessageArgument>),
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct MessageArgument {
    role: String,
    content: String,
}

impl PromptArgument {
    fn messages(self) -> PyResult<Vec<Message>> {
        match self {
            Self::Question(text) => Ok(vec![Message::user(text)]),
            Self::Conversation(messages) => messages.into_iter().map(message).collect(),
        }
    }
}

fn message(MessageArgument { role, content }: MessageArgument) -> PyResult<Message> {
    let roles = [Role::System, Role::User, Role::Assistant];
    let known = roles.into_iter().find(|known| known.as_str() == role);
    let role = known.ok_or_else(|| usage(format!("{role:?} is not system, user or assistant")))?;
    Ok(Message { role, content })
}

/// What one text wants otherwise than its pair.
#[derive(Default)]
pub struct Overrides<'py> {
    pub mode: Option<String>,
    pub router: Option<Bound<'py, PyAny>>,
    pub budget: Option<f32>,
    pub threshold: Option<f32>,
    pub max_tokens: Option<usize>,
    pub temperature: Option<f32>,
    pub seed: Option<u64>,
    pub stop: Option<Vec<String>>,
    pub on_cloud_error: Option<String>,
    pub alternatives: Option<usize>,
}

/// A request, and the router of this text alone, if it has one.
pub struct PreparedRequest {
    pub request: Request,
    own_router: Option<NamedRouter>,
}

impl Overrides<'_> {
    pub fn request(self, prompt: PromptArgument, tandem: &Tandem) -> PyResult<PreparedRequest> {
        let defaults = tandem.defaults();
        let budget = self.budget.map(Share::try_from).transpose().map_err(exception)?;
        let mut routing = RoutingOverrides {
            router: None,
            threshold: threshold(self.threshold)?,
            budget: budget.map(Share::value),
        };
        let mut own_router = None;
        match self.router {
            Some(router) if router.is_callable() => {
                own_router = Some(NamedRouter::custom("custom", PythonRouter::new(&router)));
            }
            Some(router) => routing.router = Some(router.extract()?),
            None => {}
        }
        let mut sampling = tandem.usual_sampling();
        sampling.temperature = self.temperature.unwrap_or(sampling.temperature);
        sampling.seed = self.seed.unwrap_or(sampling.seed);
        let limits = Limits {
            max_tokens: self.max_tokens.unwrap_or(defaults.limits.max_tokens),
            stops: self.stop.unwrap_or_else(|| defaults.limits.stops.clone()),
        };
        let request = Request {
            mode: mode(self.mode.as_deref())?,
            sampling: Some(sampling),
            limits: Some(limits),
            routing,
            on_error: on_cloud_error(self.on_cloud_error.as_deref())?,
            alternatives: self.alternatives,
            ..Request::chat(prompt.messages()?)
        };
        Ok(PreparedRequest { request, own_router })
    }
}

impl PreparedRequest {
    /// Begins the text.
    pub async fn begin(self, tandem: &Tandem) -> Result<tandem::Generation, tandem::Error> {
        let Self { request, own_router } = self;
        let RoutingOverrides { threshold, budget, .. } = request.routing;
        let mut resolved: ResolvedRequest = tandem.resolve(request).await?;
        if let Some(router) = own_router {
            resolved.policy = router.policy(threshold, budget.map(Share::try_from).transpose()?);
            resolved.router = router;
        }
        tandem.lease(resolved.mode, &resolved.tokens).await?.begin(resolved).await
    }
}
