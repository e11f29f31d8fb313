package openstack

import (
	"slices"
	"strings"
	"testing"
)

func TestWhichMachinesRunIt(t *testing.T) {
	whole := machine{root: true, system: system}
	bare := machine{root: true, system: system, lacks: []string{"python3-nova"}}
	for _, tc := range []struct {
		name    string
		machine machine
		choice  string
		want    string // a part of what is said; "": it runs
	}{
		{name: "with packages", machine: whole},
		{name: "without packages", machine: bare, want: "USHER_LAB_OPENSTACK=install"},
		{name: "and they may be installed", machine: bare, choice: "install"},
		{name: "not wanted", machine: whole, choice: "skip", want: "USHER_LAB_OPENSTACK"},
		{name: "not root", machine: machine{system: system}, choice: "install", want: "sudo"},
		{name: "a later Debian", machine: machine{root: true, system: "debian 13 amd64"}, choice: "install", want: "this is debian 13 amd64"},
		{name: "another processor", machine: machine{root: true, system: "debian 12 arm64"}, choice: "install", want: "needs debian 12 amd64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.machine.refuses(tc.choice)
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestNamesOfSystems(t *testing.T) {
	for _, tc := range []struct{ name, release, want string }{
		{"Debian", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n", "debian 12"},
		{"without a version", "ID=arch\n", "arch"},
		{"none", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := named(tc.release); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// What Go knows of up.sh is what up.sh says.
func TestWhatIsReadOutOfTheScript(t *testing.T) {
	if got := packages("PKGS"); len(got) != 7 || !slices.Contains(got, "python3-nova") {
		t.Errorf("got packages %q, want seven, Nova's among them", got)
	}
	if got := packages("PKGS_IRONIC"); len(got) != 3 || !slices.Contains(got, "python3-ironic") {
		t.Errorf("got packages %q, want three, Ironic's among them", got)
	}
	for _, want := range append(slices.Clone(ports), ImageID, "\n  "+CloudName+":\n") {
		if !strings.Contains(upScript, want) {
			t.Errorf("up.sh does not say %q", want)
		}
	}
	for _, host := range append(Computes(), NetworkHost) {
		if _, err := silence(host, OpenVSwitch); err != nil {
			t.Error(err)
		}
	}
}
