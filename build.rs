//! Compiles our schema with protox: no protoc needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/assayd/v1/verdict.proto"], ["proto"])?;
    // Ordered maps make the encoding of a verdict the same every time.
    prost_build::Config::new().btree_map(["."]).compile_fds(descriptors)?;
    Ok(())
}
