package system_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/system"
)

func TestFinal(t *testing.T) {
	var passing []int
	for status := 200; status < 600; status++ {
		if !system.Final(status) {
			passing = append(passing, status)
		}
	}
	passing = slices.DeleteFunc(passing, func(status int) bool { return status < 400 || status >= 500 })
	if diff := cmp.Diff([]int{404, 408, 409, 412, 421, 423, 424, 425, 429}, passing); diff != "" {
		t.Error(diff)
	}
	if system.Final(307) || system.Final(503) || !system.Final(501) {
		t.Error("a redirect or a server that is not ready is final, or one is not that does not know the method")
	}
}
