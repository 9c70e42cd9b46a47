//! ONNX Runtime's library, loaded once at run time, and its execution providers.

use std::{fmt, path::Path, str::FromStr, sync::Mutex};

use ort::{
    environment::Environment,
    ep::{self, ExecutionProvider, ExecutionProviderDispatch},
    logging::LogLevel,
    session::Session,
};

use ::onnx::external;

use crate::{error::EngineError, model::LoadOptions};

/// Each provider with its name and its type in `ort`, so that none is forgotten in one place.
macro_rules! providers {
    ($($variant:ident $name:literal $provider:ident;)*) => {
        /// One of ONNX Runtime's execution providers: the option `--onnx-provider`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Provider {
            $($variant,)*
        }

        impl FromStr for Provider {
            type Err = UnknownProvider;

            fn from_str(text: &str) -> Result<Self, UnknownProvider> {
                match text.to_ascii_lowercase().as_str() {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(UnknownProvider(text.into())),
                }
            }
        }

        impl fmt::Display for Provider {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name,)*
                })
            }
        }

        impl Provider {
            /// Whether the loaded library was built with it.
            fn is_available(self) -> bool {
                let available = match self {
                    $(Self::$variant => ep::$provider::is_available(),)*
                };
                available.unwrap_or(false)
            }

            fn dispatch(self) -> ExecutionProviderDispatch {
                let dispatch = match self {
                    $(Self::$variant => ep::$provider::default().build(),)*
                };
                dispatch.error_on_failure()
            }
        }
    };
}

providers! {
    Cpu "cpu" CPU;
    Cuda "cuda" CUDA;
    TensorRt "tensorrt" TensorRT;
    CoreMl "coreml" CoreML;
    DirectMl "directml" DirectML;
    MiGraphX "migraphx" MIGraphX;
    OpenVino "openvino" OpenVINO;
    Xnnpack "xnnpack" XNNPACK;
    Qnn "qnn" QNN;
    WebGpu "webgpu" WebGPU;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no execution provider is called {0}: use cpu, cuda, tensorrt, coreml, directml, migraphx, \
     openvino, xnnpack, qnn or webgpu"
)]
pub struct UnknownProvider(String);

/// Loads and starts the library at the first call. A process can load only one, so later calls
/// return the same environment, whatever path they name.
pub fn environment(library: &Path) -> Result<Environment, String> {
    static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);
    let mut loaded = ENVIRONMENT.lock().map_err(|_| "an earlier start failed".to_owned())?;
    if let Some(environment) = &*loaded {
        return Ok(environment.clone());
    }
    if !library.is_file() {
        return Err(format!("there is no {}", library.display()));
    }
    let library = library.canonicalize().map_err(|e| e.to_string())?;
    let builder = ort::init_from(&library).map_err(|e| e.to_string())?;
    let environment =
        builder.with_name("tandem").with_telemetry(false).build().map_err(|e| e.to_string())?;
    environment.set_log_level(LogLevel::Error);
    *loaded = Some(environment.clone());
    Ok(environment)
}

/// Loads a graph from its file, or from the bytes that replace it in memory.
pub(crate) fn session(
    path: &Path,
    changed: Option<Vec<u8>>,
    options: &LoadOptions,
) -> Result<Session, EngineError> {
    let library = options.onnx.library.as_deref();
    let environment = library.ok_or_else(|| "none was found".to_owned()).and_then(environment);
    let environment =
        environment.map_err(|reason| EngineError::Runtime { model: path.into(), reason })?;
    let missing = options.onnx.providers.iter().find(|provider| !provider.is_available());
    if let Some(provider) = missing {
        return Err(EngineError::Provider { provider: provider.to_string() });
    }
    let providers: Vec<_> = options.onnx.providers.iter().map(|p| p.dispatch()).collect();
    let folder = external::folder(path).canonicalize();
    let folder = folder.unwrap_or_else(|_| external::folder(path).into());
    let build = || -> Result<Session, ort::Error> {
        let mut builder = Session::builder(&environment)?
            .with_intra_threads(options.threads)?
            .with_inter_threads(1)?
            // Threads that wait for the next token would slow the other model on the same cores.
            .with_config_entry("session.force_spinning_stop", "1")?
            .with_execution_providers(providers)?;
        match changed {
            None => builder.commit_from_file(path),
            Some(bytes) => {
                let folder = folder.to_string_lossy();
                let key = "session.model_external_initializers_file_folder_path";
                builder.with_config_entry(key, folder)?.commit_from_memory(&bytes)
            }
        }
    };
    build().map_err(|e| EngineError::Unloadable { path: path.into(), reason: first_line(&e) })
}

/// The first line of the runtime's message. Those after it are its own stack.
pub(crate) fn first_line(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
