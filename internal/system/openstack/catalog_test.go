package openstack

import (
	"testing"
	"time"
)

func TestNegotiate(t *testing.T) {
	for _, c := range []struct{ least, most, want string }{
		{"2.1", "2.93", "2.87"}, {"2.1", "2.87", "2.87"}, {"2.1", "2.80", "2.80"}, {"2.1", "2.79", ""}, {"2.88", "2.100", ""}, {"", "", ""}, {"3.1", "3.2", ""}, {"2.1", "2.x", ""},
	} {
		if got, err := negotiate(c.least, c.most); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s to %s: %q, %v", c.least, c.most, got, err)
		}
	}
}

func TestVersionURL(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://nova:8774/v2.1/":               "http://nova:8774/v2.1/",
		"https://cloud/compute/v2.1/0123abcd/": "https://cloud/compute/v2.1/",
		"https://cloud/compute/v2/0123abcd/":   "https://cloud/compute/v2/",
		"https://compute.cloud/":               "https://compute.cloud/",
	} {
		if got := versionURL(endpoint); got != want {
			t.Errorf("%s: %s", endpoint, got)
		}
	}
}

func TestMoments(t *testing.T) {
	want := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, said := range []string{`"2026-11-28T12:00:00.000000"`, `"2026-11-28T12:00:00"`, `"2026-11-28T12:00:00Z"`, `"2026-11-28T13:00:00+01:00"`} {
		var got moment
		if err := got.UnmarshalJSON([]byte(said)); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", said, got, err)
		}
	}
	var none moment
	if err := none.UnmarshalJSON([]byte("null")); err != nil || !none.IsZero() {
		t.Errorf("null: %v, %v", none, err)
	}
	if err := none.UnmarshalJSON([]byte(`"soon"`)); err == nil {
		t.Error("what is no time is one")
	}
}
