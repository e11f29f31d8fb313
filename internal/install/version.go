package install

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"

	"usher.sh/usher/internal/observe"
)

// Oldest is the oldest Kubernetes that Usher can be installed into. There a container may sleep before it is stopped, which
// an older apiserver drops from the manager's Deployment and then refuses what is left; webhooks have match conditions, and
// ValidatingAdmissionPolicies are served.
const Oldest = "1.30"

// ErrTooOld says that a cluster is older than Oldest.
var ErrTooOld = errors.New("too old for Usher")

// CheckVersion refuses a cluster that is older than Oldest, with an error that wraps ErrTooOld.
func CheckVersion(d discovery.ServerVersionInterface) error {
	info, err := d.ServerVersion()
	if err != nil {
		return observe.Explained("asking the apiserver for its version", err)
	}
	runs, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("reading the apiserver's version: %w", err)
	}
	if runs.LessThan(version.MustParseGeneric(Oldest)) {
		return fmt.Errorf("the cluster runs Kubernetes %s, which is %w: installing needs %s or later; nothing was changed "+
			"(usher drain and usher plan need nothing installed)", info.GitVersion, ErrTooOld, Oldest)
	}
	return nil
}
