//! What many measured values say.

/// The value that this share of the values does not exceed, on the straight line between the two
/// nearest of the sorted values: the smallest is at 0, the largest at 1, and the others lie evenly
/// between them, as in NumPy's default. Values that are not finite are left out; `None` if there
/// are no others.
pub fn percentile(values: impl IntoIterator<Item = f64>, share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let (below, above) = (sorted[low], sorted[high.min(last)]);
    Some(below + (above - below) * (place - low as f64))
}

/// The 50th [`percentile`]: the middle value, or the mean of the two middle ones.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    percentile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_values() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(percentile(values, 0.0), Some(1.0));
        assert_eq!(percentile(values, 0.5), Some(3.0));
        // Four fifths of the way from 4 to 5: place 0.95 · 4 = 3.8.
        assert_eq!(percentile(values, 0.95), Some(4.8));
        assert_eq!(percentile(values, 1.0), Some(5.0));
        assert_eq!(percentile([7.0], 0.95), Some(7.0));
        let hundred = (1..=100).rev().map(f64::from);
        assert!((percentile(hundred, 0.95).unwrap() - 95.05).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        assert_eq!(percentile([f64::NAN, 2.0, f64::INFINITY], 0.5), Some(2.0));
        assert_eq!(percentile([f64::NAN], 0.5), None);
        assert_eq!(percentile([], 0.5), None);
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_two() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }
}
