//! The report of one or several sweeps: a page that needs nothing but itself, and a summary.
//!
//! - `section`: what is said of one record, from its table and its answers
//! - `readings`: the table's rows by router and delay; `measure`: what they are worth
//! - `calibration`: whether scores know which answers are right; `examples`: answers to look at
//! - `pictures`: which plots there are; `plots`: how they are drawn
//! - `router`: what is said of a router that was just made
//! - [`ReportFiles`]: from files of results to files
//! - `grid`, `numbers`: tables and numbers in words; `template`: the whole

mod calibration;
mod examples;
mod files;
mod grid;
mod measure;
mod numbers;
mod pictures;
mod plots;
mod readings;
mod router;
mod section;
mod template;
#[cfg(test)]
mod tests;

use serde::Serialize;
use thiserror::Error;

use crate::eval::results::Record;
use section::{Section, TaskSummary};

pub use files::ReportFiles;
pub use router::RouterSection;

#[derive(Debug, Error)]
pub enum ReportError {
    #[error("a plot could not be drawn: {reason}")]
    Plot { reason: String },
    #[error("the report could not be put together")]
    Template(#[from] minijinja::Error),
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    title: String,
    /// The router that it is about, if it was just made.
    router: Option<RouterSection>,
    sections: Vec<Section>,
}

/// The numbers of a report, for programs.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    tasks: Vec<&'a TaskSummary>,
}

impl Report {
    /// One section a record, in their order.
    pub fn of(records: &[Record]) -> Result<Self, ReportError> {
        let mut sections = records.iter().map(Section::of).collect::<Result<Vec<_>, _>>()?;
        let tasks: Vec<String> = sections.iter().map(|s| s.heading.clone()).collect();
        // Two records of one task differ in something else, which the heading has to say.
        for ((section, record), task) in sections.iter_mut().zip(records).zip(&tasks) {
            if tasks.iter().filter(|other| *other == task).count() > 1 {
                let about = &record.about;
                section.heading = format!("{task}: {}, {}", about.edge, about.cloud);
            }
        }
        let mut names = tasks;
        names.dedup();
        let title = format!("Tandem, measured: {}", names.join(", "));
        Ok(Self { title, router: None, sections })
    }

    /// With what training says of the router of a preset, and under the preset's name.
    pub fn with_router(self, preset: String, router: RouterSection) -> Self {
        Self { title: format!("Tandem, tuned: {preset}"), router: Some(router), ..self }
    }

    /// As one file that needs no other.
    pub fn html(&self) -> Result<String, ReportError> {
        template::render(self, "page.html", include_str!("page.html"))
    }

    /// The words and tables of the page.
    pub fn markdown(&self) -> Result<String, ReportError> {
        template::render(self, "summary.md", include_str!("summary.md"))
    }

    pub fn summary(&self) -> Summary<'_> {
        Summary { tasks: self.sections.iter().map(|section| &section.figures).collect() }
    }
}
