package eviction

import (
	"errors"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
)

// ParseRoles reads one role from each *.yaml in the root of files, sorted by file name. Fields that a role does not have
// are errors.
func ParseRoles(files fs.FS) ([]v1alpha1.Role, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing roles: %w", err)
	}
	var roles []v1alpha1.Role
	for _, name := range names {
		role, err := parseRole(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading role %s: %w", name, err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

func parseRole(files fs.FS, name string) (v1alpha1.Role, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return v1alpha1.Role{}, err
	}
	var role v1alpha1.Role
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		return v1alpha1.Role{}, err
	}
	if role.Name == "" || role.System == "" || role.State == "" || role.Identity == "" || role.Replace.Successor == "" {
		return v1alpha1.Role{}, errors.New("name, system, state, identity and replace.successor must be set")
	}
	return role, nil
}
