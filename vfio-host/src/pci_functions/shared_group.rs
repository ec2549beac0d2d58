//! What to do about an IOMMU group that a function shares with others.

use e810_backends::host::Host;
use e810_backends::host::dependents::Dependents;
use e810_backends::host::group::Member;
use e810_backends::host::pci::Function;
use e810_backends::spec::Bdf;

/// What to do so that `bdf` can be used although the functions `in_the_way` share its group. It is
/// a command only if all of them are E810 functions on which nothing depends. Any other device
/// stays as it is, and the text says what depends on it.
pub(crate) fn advice(host: &Host, bdf: Bdf, in_the_way: &[&Member]) -> String {
    let dependents = |member: &Member| {
        let function = Function::read(host, member.bdf);
        function.map(|function| Dependents::of(host, &function))
    };
    let is_ours =
        |member: &&Member| member.is_e810 && dependents(member).is_some_and(|all| all.is_free());
    if in_the_way.iter().all(is_ours) {
        let all = in_the_way.iter().map(|member| member.bdf.to_string());
        let all: Vec<String> = all.collect();
        return format!("bind them together: e810 bind {bdf} {}", all.join(" "));
    }
    let others = in_the_way.iter().filter(|member| !is_ours(member));
    let others: Vec<String> = others
        .map(|member| match dependents(member) {
            Some(all) => format!("{} ({all})", member.bdf),
            None => member.bdf.to_string(),
        })
        .collect();
    format!(
        "leave {} as it is, and move the card to a slot with a group of its own (docs/binding.md, 2)",
        others.join(", ")
    )
}
