package realnode

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func TestKubeletConfig(t *testing.T) {
	for _, test := range []struct {
		name     string
		plan     plan
		reserved string
		taints   int
	}{
		{"all memory, no taint", plan{Slot: 7, ClientCA: "/a b/ca.crt"}, "", 0},
		{"a small tainted node", plan{Slot: 7, ClientCA: "/a b/ca.crt", Reserved: "20Gi", Taints: Config{Tainted: true}.taints()}, "20Gi", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got struct {
				Address            string
				CgroupRoot         string
				Authentication     struct{ X509 struct{ ClientCAFile string } }
				SystemReserved     struct{ Memory string }
				RegisterWithTaints []struct{ Key, Effect string }
			}
			var text bytes.Buffer
			if err := templates.ExecuteTemplate(&text, "kubelet.yaml", test.plan); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(text.Bytes(), &got); err != nil {
				t.Fatalf("%v in\n%s", err, text.String())
			}
			if got.Address != "10.127.7.1" || got.CgroupRoot != "/usher7" || got.Authentication.X509.ClientCAFile != "/a b/ca.crt" ||
				got.SystemReserved.Memory != test.reserved || len(got.RegisterWithTaints) != test.taints {
				t.Errorf("got %+v from\n%s", got, text.String())
			}
		})
	}
}

func TestReserve(t *testing.T) {
	for _, test := range []struct{ wanted, err string }{
		{"0", ""},
		{"1Mi", ""},
		{"1Ei", "more than the machine has"},
	} {
		got, err := reserve(resource.MustParse(test.wanted))
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got error %v, want %q", test.wanted, err, test.err)
		}
		if whole := test.wanted == "0"; err == nil && whole != (got == "") {
			t.Errorf("%s: reserved %q", test.wanted, got)
		}
	}
}
