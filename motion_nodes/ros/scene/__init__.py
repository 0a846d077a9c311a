# SPDX-License-Identifier: Apache-2.0
"""The planning scene over ROS: conversion of messages, and copies that follow its owner."""
