package install

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

// serves is an apiserver of a version.
type serves string

func (s serves) ServerVersion() (*version.Info, error) {
	if s == "" {
		return nil, errors.New("connection refused")
	}
	return &version.Info{GitVersion: string(s)}, nil
}

func TestCheckVersion(t *testing.T) {
	for runs, want := range map[serves]string{
		"v1.30.0":               "",
		"v1.30.14-eks-931bdca":  "",
		"v1.31.5-gke.1234000":   "",
		"v1.37.1+k3s1":          "",
		"v2.0.0":                "",
		"v1.30.0-alpha.1":       "", // what it lacks of 1.30 the dry run finds
		"v1.29.14":              "the cluster runs Kubernetes v1.29.14, which is too old for Usher: installing needs 1.30 or later",
		"v1.9.0":                "too old for Usher",
		"v1.29.99-eks-99aabbcc": "too old for Usher",
		"unknown":               "reading the apiserver's version",
		"":                      "asking the apiserver for its version",
	} {
		err := CheckVersion(runs)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", runs, err, want)
		}
		if tooOld := strings.Contains(want, "too old"); errors.Is(err, errTooOld) != tooOld {
			t.Errorf("%q: too old is %t, want %t", runs, !tooOld, tooOld)
		}
	}
}
