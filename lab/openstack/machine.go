package openstack

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// ChoiceEnv names the environment variable that says what tests may do for an OpenStack: "install" Debian's packages, or "skip" it though they
// are installed. Unset, it is used where they are.
const ChoiceEnv = "USHER_LAB_OPENSTACK"

// system is what the scripts were written for: other releases of Debian have other releases of OpenStack.
const system = "debian 12 amd64"

// machine is what a control plane needs of the machine.
type machine struct {
	root   bool
	system string   // as the constant
	lacks  []string // packages that are not installed
}

// refuses says why this machine runs no control plane, and how it would; "" if it does.
func (m machine) refuses(choice string) string {
	switch {
	case choice == "skip":
		return ChoiceEnv + " says so"
	case m.system != system:
		return fmt.Sprintf("a real OpenStack needs %s, and this is %s", system, m.system)
	case !m.root:
		return "a real OpenStack needs root: run the tests with sudo"
	case len(m.lacks) > 0 && choice != "install":
		return fmt.Sprintf("there is no OpenStack: set %s=install and its tests install Debian's packages (140 MB at most): %s", ChoiceEnv, strings.Join(m.lacks, " "))
	}
	return ""
}

// look finds out about this machine.
func look(packages []string) (machine, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return machine{}, fmt.Errorf("reading what system this is: %w", err)
	}
	m := machine{root: os.Geteuid() == 0, system: strings.TrimSpace(named(string(release)) + " " + runtime.GOARCH)}
	if m.system != system {
		return m, nil
	}
	out, err := exec.Command("dpkg-query", append([]string{"-W", "-f", "${Package} ${db:Status-Status}\n"}, packages...)...).Output() //nolint:noctx // it reads a file
	if _, unknown := errors.AsType[*exec.ExitError](err); err != nil && !unknown {
		return machine{}, fmt.Errorf("looking for packages: %w", err)
	}
	m.lacks = slices.DeleteFunc(slices.Clone(packages), func(name string) bool {
		return slices.Contains(strings.Split(string(out), "\n"), name+" installed")
	})
	return m, nil
}

// named returns ID and VERSION_ID of an os-release.
func named(release string) string {
	values := map[string]string{}
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"'`)
	}
	return strings.TrimSpace(values["ID"] + " " + values["VERSION_ID"])
}

var (
	//go:embed files/up.sh
	upScript string
	listed   = regexp.MustCompile(`(?m)^(PKGS\w*)="(.*)"$`)
)

// packages are those of a list of up.sh, which it installs.
func packages(list string) []string {
	for _, found := range listed.FindAllStringSubmatch(upScript, -1) {
		if found[1] == list {
			return strings.Fields(found[2])
		}
	}
	return nil
}
