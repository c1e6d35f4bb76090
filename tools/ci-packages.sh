#!/usr/bin/env bash
# Installs what tests need from Debian and is not there: a Chromium for tests/browser, a Docker engine and Docker Compose
# for tests/containers. Without root or a reachable package server it says so, and those tests are skipped with the reason.
set -euo pipefail
packages=()
command -v chromium > /dev/null || packages+=(chromium)
command -v dockerd > /dev/null || packages+=(docker.io)
command -v docker-compose > /dev/null || packages+=(docker-compose)
command -v debootstrap > /dev/null || packages+=(debootstrap)
[[ ${#packages[@]} == 0 ]] && exit 0
skipped() { echo "ci-packages: $1: tests that need ${packages[*]} are skipped"; exit 0; }
command -v apt-get > /dev/null || skipped "there is no apt-get"
[[ $(id -u) == 0 ]] || skipped "not root"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update > /dev/null 2>&1 || skipped "apt-get cannot reach a package server"
missing=()
for package in "${packages[@]}"; do
  apt-get -qq install --yes --no-install-recommends "$package" > /dev/null 2>&1 || missing+=("$package")
done
packages=("${missing[@]}")
[[ ${#packages[@]} == 0 ]] || skipped "apt-get could not install them"
