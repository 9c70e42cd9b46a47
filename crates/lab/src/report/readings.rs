//! The rows of a table with what they are worth, by who judged and how far away the cloud was.

use super::measure::Measure;
use crate::{
    eval::{
        results::Record,
        table::{Row, RowKind, Table},
    },
    statistics::Estimate,
};

pub fn is_random(router: Option<&str>) -> bool {
    router.is_some_and(|name| name == "random" || name.starts_with("random:"))
}

/// A row, and what it is worth.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub row: &'a Row,
    pub worth: Estimate,
}

/// All rows whose worth is known.
#[derive(Clone, Debug)]
pub struct Readings<'a> {
    pub measure: Measure,
    all: Vec<Reading<'a>>,
}

impl<'a> Readings<'a> {
    pub fn of(record: &Record, table: &'a Table, measure: Measure) -> Self {
        let read = |row: &'a Row| Some(Reading { row, worth: measure.read(row, record)? });
        Self { measure, all: table.rows.iter().filter_map(read).collect() }
    }

    pub fn first(&self, kind: RowKind) -> Option<Reading<'a>> {
        self.all.iter().copied().find(|r| r.row.mode == kind)
    }

    /// Rows of this kind, by how much came from the cloud.
    pub fn of_kind(&self, kind: RowKind) -> Vec<Reading<'a>> {
        let mut of: Vec<_> = self.all.iter().copied().filter(|r| r.row.mode == kind).collect();
        of.sort_by(|a, b| a.row.routed_share.total_cmp(&b.row.routed_share));
        of
    }

    /// Those who judged token by token, in the order of the table: the one that matters first,
    /// `random` not among them.
    pub fn routers(&self) -> Vec<&'a str> {
        let mut routers: Vec<&str> = vec![];
        for Reading { row, .. } in self.all.iter().filter(|r| r.row.mode == RowKind::Joint) {
            let router = row.router.as_deref().unwrap_or(&row.name);
            if !is_random(Some(router)) && !routers.contains(&router) {
                routers.push(router);
            }
        }
        routers
    }

    /// Simulated delays of joint decoding, the shortest first; `None` is none at all.
    pub fn delays(&self) -> Vec<Option<f64>> {
        let joint = self.all.iter().filter(|r| r.row.mode == RowKind::Joint);
        let mut delays: Vec<Option<f64>> = joint.map(|r| r.row.rtt_ms).collect();
        delays.sort_by(|a, b| a.unwrap_or(-1.0).total_cmp(&b.unwrap_or(-1.0)));
        delays.dedup();
        delays
    }

    /// One router's points of joint decoding, by share. `None` asks for `random`.
    pub fn joint(&self, router: Option<&str>, delay: Option<f64>) -> Vec<Reading<'a>> {
        let is_it = |row: &Row| {
            let own = row.router.as_deref().unwrap_or(&row.name);
            router.map_or_else(|| is_random(Some(own)), |wanted| wanted == own)
        };
        let mut joint = self.of_kind(RowKind::Joint);
        joint.retain(|r| is_it(r.row) && r.row.rtt_ms == delay);
        joint
    }

    /// The point that stands for joint decoding where there is room for one: the first router's, in
    /// the middle of its shares, at the shortest delay, of those with the most answers. Not the
    /// best one: that would be luck.
    pub fn middle(&self) -> Option<Reading<'a>> {
        let delay = self.delays().first().copied()?;
        let router = self.routers().first().copied();
        let mut joint = self.joint(router, delay);
        let most = joint.iter().map(|r| r.row.questions).max();
        joint.retain(|r| Some(r.row.questions) == most);
        joint.get(joint.len().checked_sub(1)? / 2).copied()
    }
}
