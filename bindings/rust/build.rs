// SPDX-License-Identifier: Apache-2.0
//! Where libsidelight is, if it is not where the linker looks: SIDELIGHT_LIB_DIR, or what pkg-config says.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=SIDELIGHT_LIB_DIR");
    if let Ok(dir) = std::env::var("SIDELIGHT_LIB_DIR") {
        println!("cargo:rustc-link-search=native={dir}");
        return;
    }
    let found = Command::new("pkg-config").args(["--variable=libdir", "sidelight"]).output();
    if let Ok(out) = found {
        let dir = String::from_utf8_lossy(&out.stdout);
        if out.status.success() && !dir.trim().is_empty() {
            println!("cargo:rustc-link-search=native={}", dir.trim());
        }
    }
}
