package openstack

import "github.com/gophercloud/gophercloud/v2"

// OpenAt is Open with another clock.
var OpenAt = openAt

// Account is who a clouds.yaml says logs in, and in which region.
func Account(file []byte) (gophercloud.AuthOptions, gophercloud.EndpointOpts, error) {
	found, err := parseClouds(file, "spec.system.openstack", "")
	return found.options, gophercloud.EndpointOpts{Region: found.region}, err
}
