//! Compiles a plain loop several times, for the instruction sets that matter, and runs the best one that this CPU has.

/// A multiply-add that is one instruction where there is one, and two elsewhere (never a library call).
pub trait Fused: Copy {
    /// `a · b + c`
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;
}

/// A CPU with fused multiply-add.
#[derive(Clone, Copy)]
struct WithFma;

/// A CPU without.
#[derive(Clone, Copy)]
struct WithoutFma;

impl Fused for WithFma {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        // Without optimisation it would be a call of a library after all.
        if cfg!(debug_assertions) { a * b + c } else { a.mul_add(b, c) }
    }
}

impl Fused for WithoutFma {
    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// A loop over slices. Everything that it calls must be `#[inline(always)]` to be compiled along.
pub trait Kernel {
    /// What it gives.
    type Output;
    /// The loop.
    fn run<F: Fused>(self) -> Self::Output;
}

/// Runs a kernel with the best instructions that this CPU has.
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the CPU has these features.
            return unsafe { x86::with_avx512(kernel) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has these features.
            return unsafe { x86::with_avx2(kernel) };
        }
        kernel.run::<WithoutFma>()
    }
    // Other 64-bit CPUs that matter have a fused multiply-add in their base instructions.
    #[cfg(not(target_arch = "x86_64"))]
    {
        if cfg!(target_arch = "aarch64") { kernel.run::<WithFma>() } else { kernel.run::<WithoutFma>() }
    }
}

/// Runs a closure of plain loops with the best instructions that this CPU has.
pub fn vectorised<R>(body: impl FnOnce() -> R) -> R {
    struct Closure<B>(B);
    impl<R, B: FnOnce() -> R> Kernel for Closure<B> {
        type Output = R;
        #[inline(always)]
        fn run<F: Fused>(self) -> R {
            (self.0)()
        }
    }
    run(Closure(body))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Kernel, WithFma};

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub(super) unsafe fn with_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<WithFma>()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<WithFma>()
    }
}
