use super::*;

fn all() -> impl Iterator<Item = Shape> {
    let counts = [1, 2, 7, 8, 100, 1024];
    counts.into_iter().flat_map(|leaves| {
        [1, 2, 3, 6].into_iter().flat_map(move |levels| {
            Pattern::ALL.into_iter().map(move |pattern| Shape { leaves, levels, pattern, ..Shape::default() })
        })
    })
}

#[test]
fn a_tree_has_as_many_leaves_and_levels_as_asked_for_and_is_even() {
    for shape in all() {
        let tree = shape.tree().unwrap();
        assert_eq!((tree.leaves().len(), tree.levels()), (shape.leaves, shape.levels), "{shape:?}");
        for class in tree.classes().filter(|&class| !tree.is_leaf(class)) {
            let children = tree.children(class).len();
            assert!(children.saturating_sub(1).pow(shape.levels as u32) < shape.leaves.max(2), "{shape:?}: {children}");
        }
    }
}

#[test]
fn trees_that_cannot_be_are_refused() {
    for (leaves, levels) in [(0, 1), (8, 0), (8, 1000), (usize::MAX, 1)] {
        let shape = Shape { leaves: leaves.min(2_000_000), levels, ..Shape::default() };
        assert!(matches!(shape.tree(), Err(WorkloadError::Tree { .. })), "{leaves} {levels}");
    }
}

#[test]
fn ceilings_are_twice_what_a_class_gets_and_never_above_the_link() {
    let shape = Shape { leaves: 64, levels: 3, ceilings: true, ..Shape::default() };
    let tree = shape.tree().unwrap();
    let ceiling = |class| tree.config(class).ceiling.unwrap().bps();
    assert_eq!(ceiling(tree.leaves()[0]), 2 * RATE.bps() / 64);
    assert_eq!(ceiling(tree.children(ClassId::ROOT)[0]), 2 * RATE.bps() / 4);
    let shape = Shape { leaves: 100, pattern: Pattern::Sparse, ..shape };
    let tree = shape.tree().unwrap();
    assert!(tree.classes().all(|class| tree.config(class).ceiling == Some(RATE)), "one leaf sends");
}

#[test]
fn words_make_a_shape_and_others_are_named() {
    let mut shape = Shape::default();
    for word in
        ["leaves=8", "levels=3", "churn", "single", "ceilings", "record", "long", "weights=10", "len=64", "max=100"]
    {
        shape.set(word).unwrap();
    }
    let calls = Calls::Single;
    let wanted = Shape {
        leaves: 8,
        levels: 3,
        pattern: Pattern::Churn,
        calls,
        ceilings: true,
        record: true,
        rounds: RoundLength::Long,
        weights: 10,
        len: 64,
        max_packet: 100,
    };
    assert_eq!(shape, wanted);
    for word in ["", "leaves", "leaves=many", "bursts", "leaves=-1"] {
        let error = shape.set(word).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{word:?} is no part of a workload")), "{error}");
    }
}
