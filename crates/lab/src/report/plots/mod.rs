//! Plots as SVG: [`curves`] and [`bars`] on a [`canvas`], told apart by their [`style`].

pub mod bars;
pub mod canvas;
pub mod curves;
pub mod style;
