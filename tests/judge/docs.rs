//! The examples of the page on judges are configurations that work.

#[test]
fn every_example_of_the_page_is_accepted() {
    let page = include_str!("../../docs/judges.md");
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 7);
    for example in examples {
        if let Err(error) = assayd::config::parse(example, "docs/judges.md") {
            panic!("{example}\n{error}");
        }
    }
}
