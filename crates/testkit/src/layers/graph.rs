//! Circles in a graph of names.

use std::collections::{BTreeMap, BTreeSet};

/// Who uses whom.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// One circle for every knot of names that use each other: a shortest way from its first name, in
/// the order of the alphabet, back to itself.
pub(super) fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for start in graph.keys() {
        if !seen.contains(start)
            && let Some(circle) = shortest_circle(graph, start)
        {
            // The whole knot, so that it is told once and not by each of its names.
            let reached = reachable(graph, start);
            seen.extend(reached.into_iter().filter(|name| reachable(graph, name).contains(start)));
            circles.push(circle);
        }
    }
    circles
}

fn reachable(graph: &Graph, start: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![start.to_owned()];
    while let Some(name) = next.pop() {
        for used in graph.get(&name).into_iter().flatten() {
            if reached.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    reached
}

fn shortest_circle(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.to_owned()]];
    let mut reached = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().expect("a way has a start");
            for used in graph.get(last).into_iter().flatten() {
                let mut on = way.clone();
                on.push(used.clone());
                if used == start {
                    return Some(on);
                }
                if reached.insert(used.clone()) {
                    longer.push(on);
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Graph, circles};

    #[test]
    fn a_tree_has_no_circle() {
        check(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], &[]);
    }

    #[test]
    fn each_knot_is_told_once() {
        check(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "b")], &["a b c a"]);
        check(&[("a", "b"), ("b", "a"), ("b", "x"), ("x", "y"), ("y", "x")], &["a b a", "x y x"]);
        check(&[("a", "a")], &["a a"]);
    }

    fn check(edges: &[(&str, &str)], want: &[&str]) {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        let found: Vec<String> = circles(&graph).iter().map(|circle| circle.join(" ")).collect();
        assert_eq!(found, want);
    }
}
