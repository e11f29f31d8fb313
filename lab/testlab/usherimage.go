package testlab

import (
	"path/filepath"
	"testing"

	"usher.sh/usher/lab/image"
)

// UsherImage makes an image of usher called image.UsherName for join.Options, as `make image` makes one, and returns its
// archive and the program in it, which runs on the host as well.
func (l *Lab) UsherImage(tb testing.TB) (archive, program string) {
	tb.Helper()
	dir := tb.TempDir()
	archive, program = filepath.Join(dir, "usher.tar"), filepath.Join(dir, "usher")
	usher := image.Usher{Name: image.UsherName}
	check(tb, "building usher", usher.Compile(tb.Context(), program))
	check(tb, "making an image of usher", usher.Pack(program, archive))
	return archive, program
}
