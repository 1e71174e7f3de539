use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Uniform in (0, 1].
fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Normal with mean 0 and variance 1 (Box and Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform(random)).cos()
}

#[test]
fn quantiles_of_students_t_are_those_of_the_printed_table() {
    // Jain 1991, Table A.4, 0.975: 1, 2, 4, 7, 9, 29, 120 degrees of freedom, then the normal.
    let table = [(1, 12.706), (2, 4.303), (4, 2.776), (7, 2.365), (9, 2.262), (29, 2.045), (120, 1.980)];
    for (degrees, expected) in table {
        assert!((student_t(degrees) - expected).abs() < 5e-4, "{degrees}: {}", student_t(degrees));
    }
    // The expansion of Cornish and Fisher, to 1/n: z + (z^3 + z) / 4n.
    let normal = 1.959_964f64;
    for degrees in [1_000, 4_999, 5_001, 1_000_000] {
        let expanded = normal + (normal.powi(3) + normal) / (4.0 * degrees as f64);
        assert!((student_t(degrees) - expanded).abs() < 5e-4, "{degrees}: {}", student_t(degrees));
    }
}

#[test]
fn an_interval_of_five_values_is_as_calculated_by_hand() {
    // Mean 3, s = sqrt(2.5), s / sqrt 5 = 0.707107.
    let estimate = Estimate::from_values(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert_eq!((estimate.mean, estimate.n), (3.0, 5));
    assert!((estimate.ci95.unwrap() - 2.776_445 * std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-5);
    assert!((estimate.ci95_normal.unwrap() - 1.96 * std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-5);
}

#[test]
fn one_value_has_no_interval_and_equal_values_have_one_of_nothing() {
    assert_eq!(Estimate::from_values(&[]), None);
    assert_eq!(Estimate::from_values(&[7.0]).unwrap().ci95, None);
    let equal = Estimate::from_values(&[0.1; 7]).unwrap();
    assert_eq!((equal.mean, equal.ci95, equal.differs_from_zero()), (0.1, Some(0.0), Some(true)));
    // Large values with small differences keep their digits.
    let large = Estimate::from_values(&[1e12 + 1.0, 1e12 + 2.0, 1e12 + 3.0]).unwrap();
    assert!((large.ci95.unwrap() - 4.302_65 / 3f64.sqrt()).abs() < 1e-3, "{large:?}");
}

/// Part of 4,000 samples of `n` values in which the interval covers `truth`: by Student's t and by the normal
/// distribution.
fn coverage(n: usize, truth: f64, draw: impl Fn(&mut ChaCha8Rng) -> f64) -> (f64, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(n as u64);
    let (mut student, mut by_normal) = (0, 0);
    for _ in 0..4_000 {
        let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
        let estimate = Estimate::from_values(&values).unwrap();
        let off = (estimate.mean - truth).abs();
        student += u32::from(off <= estimate.ci95.unwrap());
        by_normal += u32::from(off <= estimate.ci95_normal.unwrap());
    }
    (f64::from(student) / 4_000.0, f64::from(by_normal) / 4_000.0)
}

#[test]
fn an_interval_of_95_percent_covers_the_mean_of_a_normal_in_95_percent() {
    // A proportion of 0.95 in 4,000 trials is within 0.0103 in all but 0.3 % of the cases; the seed is fixed.
    for n in [2, 5, 10, 30] {
        let (student, by_normal) = coverage(n, 10.0, |random| 10.0 + 3.0 * normal(random));
        assert!((student - 0.95).abs() < 0.0103, "{n}: {student}");
        assert!(by_normal < student, "{n}: {by_normal}");
    }
}

#[test]
fn the_thesis_formula_covers_the_mean_of_five_values_in_88_percent_only() {
    // P(|t4| <= 1.96) = 0.8784.
    let (_, by_normal) = coverage(5, 0.0, normal);
    assert!((by_normal - 0.8784).abs() < 0.0155, "{by_normal}");
}

#[test]
fn an_interval_covers_the_mean_of_exponential_values_in_95_percent_where_there_are_many() {
    let exponential = |random: &mut ChaCha8Rng| -uniform(random).ln();
    let (many, _) = coverage(200, 1.0, exponential);
    assert!((many - 0.95).abs() < 0.0155, "{many}");
    // Skewed values need more of them: a few do not suffice.
    let (few, _) = coverage(5, 1.0, exponential);
    assert!((0.86..0.91).contains(&few), "{few}");
}

#[test]
fn differences_of_pairs_are_known_better_than_differences_of_means() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let common: Vec<f64> = (0..10).map(|_| 100.0 * normal(&mut random)).collect();
    let one: Vec<_> = common.iter().map(|value| Some(value + 1.0 + 0.1 * normal(&mut random))).collect();
    let other: Vec<_> = common.iter().map(|value| Some(value + 0.1 * normal(&mut random))).collect();
    let paired = Estimate::of_differences(&one, &other).unwrap();
    assert!((paired.mean - 1.0).abs() < paired.ci95.unwrap() && paired.ci95.unwrap() < 0.2);
    assert_eq!(paired.differs_from_zero(), Some(true));
    let alone = Estimate::from_values(&one.iter().flatten().copied().collect::<Vec<_>>()).unwrap();
    assert!(alone.ci95.unwrap() > 30.0);
    // A pair with a gap does not count.
    assert_eq!(Estimate::of_differences(&[Some(1.0), None], &[Some(3.0), Some(1.0)]).unwrap().n, 1);
    assert_eq!(Estimate::of_differences(&[None], &[Some(1.0)]), None);
}

#[test]
fn equal_means_are_called_different_in_five_percent() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut draw = || (0..5).map(|_| Some(normal(&mut random))).collect::<Vec<_>>();
    let differ = |_| Estimate::of_differences(&draw(), &draw()).unwrap().differs_from_zero() == Some(true);
    let share = (0..4_000).map(differ).filter(|&differs| differs).count() as f64 / 4_000.0;
    assert!((share - 0.05).abs() < 0.0103, "{share}");
}

#[test]
fn jains_index_is_one_for_equal_shares_and_k_in_n_where_k_have_all() {
    assert_eq!(jain_index(&[0.5; 4]), Some(1.0));
    assert_eq!(jain_index(&[1.0, 1.0, 0.0, 0.0, 0.0]), Some(0.4));
    // The example of the report: 1, 3, 5 Mbit/s: 81 / 105.
    assert!((jain_index(&[1.0, 3.0, 5.0]).unwrap() - 81.0 / 105.0).abs() < 1e-12);
    assert_eq!((jain_index(&[]), jain_index(&[0.0; 3])), (None, None));
}

/// A brute-force MSER-5: the definition, cut by cut.
fn slow_mser5(observations: &[f64]) -> Option<usize> {
    let batches: Vec<f64> =
        observations.chunks_exact(5).map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect();
    let error = |cut: usize| {
        let rest = &batches[cut..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    let cut = (0..batches.len() - 5).min_by(|&a, &b| error(a).total_cmp(&error(b)))?;
    (2 * cut <= batches.len()).then_some(cut * 5)
}

#[test]
fn mser5_finds_the_end_of_a_transient_and_nothing_where_there_is_none() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let series = |bias: f64, until: usize, random: &mut ChaCha8Rng| -> Vec<f64> {
        (0..1_000).map(|n| 10.0 + normal(random) + if n < until { bias } else { 0.0 }).collect()
    };
    let transient = series(20.0, 200, &mut random);
    let found = mser5(&transient).unwrap();
    assert!((200..=215).contains(&found), "{found}");
    for _ in 0..50 {
        let steady = series(0.0, 0, &mut random);
        assert_eq!(mser5(&steady), slow_mser5(&steady));
    }
    // A step in the second half is not warm-up.
    assert_eq!(mser5(&series(20.0, 800, &mut random)), None);
    assert_eq!(mser5(&[1.0; 49]), None);
    assert_eq!(mser5(&[1.0; 50]), Some(0));
}

#[test]
fn mser5_leaves_most_of_a_steady_series_alone() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut cuts: Vec<usize> =
        (0..200).filter_map(|_| mser5(&(0..1_000).map(|_| normal(&mut random)).collect::<Vec<_>>())).collect();
    cuts.sort_unstable();
    assert!(cuts.len() > 180 && cuts[cuts.len() / 2] <= 100, "{} {}", cuts.len(), cuts[cuts.len() / 2]);
}

#[test]
fn the_jackknife_of_a_mean_is_the_interval_of_the_mean_and_one_of_a_ratio_knows_that_runs_belong_together() {
    let values = [3.0, 5.0, 4.5, 8.0, 6.0];
    let left = |of: &[f64], without: Option<usize>| -> Vec<f64> {
        of.iter().enumerate().filter(|&(run, _)| Some(run) != without).map(|(_, &value)| value).collect()
    };
    let sum = |of: &[f64], without| left(of, without).iter().sum::<f64>();
    let mean = |without| Ok::<_, ()>(sum(&values, without) / left(&values, without).len() as f64);
    let jackknife = Estimate::jackknife(values.len(), mean).unwrap();
    let usual = Estimate::from_values(&values).unwrap();
    assert!((jackknife.mean - usual.mean).abs() < 1e-12 && jackknife.n == 5);
    assert!((jackknife.ci95.unwrap() - usual.ci95.unwrap()).abs() < 1e-9, "{jackknife:?} {usual:?}");
    // Half of each run: the ratio is certain, however the runs differ.
    let halves = values.map(|value| value / 2.0);
    let ratio = Estimate::jackknife(5, |without| Ok::<_, ()>(sum(&halves, without) / sum(&values, without))).unwrap();
    assert!((ratio.mean - 0.5).abs() < 1e-12 && ratio.ci95.unwrap() < 1e-9, "{ratio:?}");
    // Without its only run with a loss there is no ratio.
    let losses = [0.0, 0.0, 2.0];
    let none = Estimate::jackknife(3, |without| Ok::<_, ()>(sum(&losses, without) / sum(&losses, without))).unwrap();
    assert_eq!((none.mean, none.ci95), (1.0, Some(f64::INFINITY)));
    assert_eq!(Estimate::jackknife(1, |_| Ok::<_, ()>(7.0)).unwrap().ci95, None);
    assert_eq!(Estimate::jackknife(3, |_| Err("no run")), Err("no run"));
}
