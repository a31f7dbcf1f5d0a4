// Lets this processor answer the CPUID instruction as another one would, so that numeric libraries
// choose the kernels that they would choose there. For Linux on x86-64 processors with CPUID faulting.
//   cc -O1 -shared -fPIC -o other_processor.so benchmarks/other_processor.c
//   python -m benchmarks.kernels --library other_processor.so
// FAKE_CPU names the processor: intel_avx2 (Haswell), amd_avx2 (Zen 3), amd_avx512 (Zen 4). What it
// computes is what this processor computes; instructions that makers implement differently (rcpps,
// rsqrtps) are not shown.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static int amd, avx512;
static unsigned model;
static void raw(unsigned l, unsigned s, unsigned *r) {
  __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(l), "c"(s));
}
static void cp(int on) { syscall(SYS_arch_prctl, 0x1012, (unsigned long)on); }
static void vendor(unsigned *r) { memcpy(&r[1], "Auth", 4); memcpy(&r[3], "enti", 4); memcpy(&r[2], "cAMD", 4); }
static void fault(int sig, siginfo_t *i, void *c) {
  greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs;
  unsigned char *p = (unsigned char *)g[REG_RIP];
  if (!(p[0] == 0x0f && p[1] == 0xa2)) { signal(SIGSEGV, SIG_DFL); return; }
  unsigned l = g[REG_RAX], s = g[REG_RCX], r[4];
  cp(1);
  raw(l, s, r);
  if (l == 0 && amd) { vendor(r); r[0] = 0x10; }
  if (l == 1) r[0] = model;
  if (l == 4 && amd) memset(r, 0, 16);
  if (l == 7 && s == 0 && !avx512) {
    r[1] &= ~((1u<<16)|(1u<<17)|(1u<<21)|(1u<<26)|(1u<<27)|(1u<<28)|(1u<<30)|(1u<<31));
    r[2] &= ~((1u<<1)|(1u<<6)|(1u<<11)|(1u<<12)|(1u<<14));
  }
  if (l == 7 && s == 0) r[3] &= ~((1u<<2)|(1u<<3)|(1u<<8)|(1u<<22)|(1u<<23)|(1u<<24)|(1u<<25));
  if (l == 7 && s == 1) r[0] &= avx512 ? ~(1u<<4) : ~((1u<<4)|(1u<<5));
  if (l == 0x80000000u && amd) { vendor(r); r[0] = 0x80000023u; }
  if (l == 0x8000001du && amd) raw(4, s, r);
  cp(0);
  g[REG_RAX] = r[0]; g[REG_RBX] = r[1]; g[REG_RCX] = r[2]; g[REG_RDX] = r[3];
  g[REG_RIP] += 2;
}
__attribute__((constructor)) static void start(void) {
  const char *f = getenv("FAKE_CPU");
  if (!f) return;
  amd = !strncmp(f, "amd", 3); avx512 = strstr(f, "avx512") != 0;
  model = amd ? (avx512 ? 0x00a10f11 : 0x00a00f11) : 0x000306f2;
  struct sigaction a = {0};
  a.sa_sigaction = fault; a.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &a, 0);
  if (syscall(SYS_arch_prctl, 0x1012, 0UL)) { perror("no cpuid faulting"); exit(9); }
}
