package image

import "testing"

func TestLibraryOf(t *testing.T) {
	for line, want := range map[string]string{
		"\tlinux-vdso.so.1 (0x00007fff)":                                        "",
		"\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)":           "/lib/x86_64-linux-gnu/libc.so.6",
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f00)":                            "/lib64/ld-linux-x86-64.so.2",
		"\tlibmissing.so => not found":                                          "",
		"\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f8005b85000)  ": "/lib/x86_64-linux-gnu/libm.so.6",
	} {
		if got := libraryOf(line); got != want {
			t.Errorf("in %q it is %q", line, got)
		}
	}
}
