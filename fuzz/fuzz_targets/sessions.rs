//! The session protocol: calls in any order (open, take over, next, the same again, a wrong prefix, score, cancel,
//! close, use of what is gone), drawn from the input, against a model of what is promised.
#![no_main]

extern crate cloud as tandem_cloud;

#[allow(dead_code, reason = "seeds and counts are for the tests")]
#[path = "../../crates/cloud/tests/it/campaign.rs"]
mod campaign;

use std::sync::{Arc, OnceLock};

use campaign::{Campaign, Draws};
use libfuzzer_sys::fuzz_target;
use tandem_cloud::Service;
use tokio::runtime::{Builder, Runtime};

/// The most calls of one input: what comes behind them is another input's.
const MOST_CALLS: usize = 40;

fn service() -> &'static (Runtime, Arc<Service>) {
    static SERVICE: OnceLock<(Runtime, Arc<Service>)> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        (runtime, campaign::service(fuzz::folder()))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (runtime, service) = service();
    runtime.block_on(async {
        let draws = Draws::Bytes(bytes.to_vec().into_iter());
        let mut campaign = Campaign::new(service.clone(), draws);
        for _ in 0..MOST_CALLS {
            if campaign.draws.is_over() {
                break;
            }
            campaign.call().await;
        }
        campaign.finish().await;
    });
});
