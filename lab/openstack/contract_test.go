package openstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestContract holds the real servers to what the simulated ones are held to: the tests of the system openstack that take both.
func TestContract(t *testing.T) {
	c := begin(t, Start)
	contract(t, c, "", "USHER_OPENSTACK_CLOUDS", "USHER_OPENSTACK_IMAGE="+ImageID)
}

// TestIronicContract does the same for Ironic, by the fence.
func TestIronicContract(t *testing.T) {
	c := begin(t, StartIronic)
	contract(t, c, "^TestIronic", "USHER_IRONIC_CLOUDS")
}

// contract runs the tests of a name, "" for all, with a clouds.yaml in a variable, beside others.
func contract(t *testing.T, c *Cloud, named, variable string, others ...string) {
	t.Helper()
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	check(t, "writing clouds.yaml", os.WriteFile(clouds, []byte(c.Clouds()), 0o600))
	tests := exec.CommandContext(t.Context(), "go", "test", "-short", "-count", "1", "-timeout", "40m", "-v", "-run", named, "usher.sh/usher/internal/system/openstack")
	tests.Env = append(append(os.Environ(), variable+"="+clouds), others...)
	out, err := tests.CombinedOutput()
	t.Logf("%s", out)
	check(t, "the tests", err)
}
