use super::*;

fn branch(kinds: &[ElementKind], first: u32) -> Branch {
    let mut branch = Branch::new();
    for (layer, kind) in kinds.iter().enumerate() {
        let teid = if layer == 0 { 1 } else { first + layer as u32 };
        branch
            .push(Element {
                parent: 0,
                teid,
                kind: *kind,
            })
            .unwrap();
    }
    branch
}

fn tree(layers: u8, branches: &[Branch]) -> Result<Tree> {
    let resources = SchedulerResources {
        layers,
        queue_sets: 8,
        max_children: [8; MAX_LAYERS],
    };
    let topology: Topology = branches.iter().cloned().collect();
    Tree::new(resources, Layers::of(layers).unwrap(), &topology)
}

use ElementKind::{EntryPoint, Generic, Leaf, Root, TrafficClass};

#[test]
fn each_branch_with_its_own_class_is_a_class() {
    let kinds = [Root, TrafficClass, EntryPoint, Generic, Leaf];
    let two = [branch(&kinds, 10), branch(&kinds, 20)];
    let tree = tree(5, &two).unwrap();
    let above: std::vec::Vec<u32> = tree.classes.iter().map(|class| class.above).collect();
    assert_eq!((above, tree.entry), (std::vec![11, 21], 2));
}

#[test]
fn an_entry_point_must_leave_room_for_the_vsi() {
    let low = branch(&[Root, TrafficClass, Generic, Generic, EntryPoint], 10);
    assert!(matches!(
        tree(5, &[low]),
        Err(Error::BadTree { value: 4, .. })
    ));
    let none = branch(&[Root, TrafficClass, Generic], 10);
    assert!(tree(9, &[none]).is_err());
    let on_a_class = branch(&[Root, EntryPoint], 10);
    assert!(tree(9, &[on_a_class]).is_err());
    assert_eq!(Layers::of(7), None);
}
