//! What must not compile, one file per forbidden thing.

#[test]
fn forbidden_things_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
